/* SPDX-License-Identifier: MIT */
/* A module of the client's, with a name that a part of RunLoop could have. */
int clients_number(void);
