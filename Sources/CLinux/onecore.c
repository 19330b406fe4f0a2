/* SPDX-License-Identifier: MIT */
/* One core per process: how a copy of the library finds the others. */
#define _GNU_SOURCE
#include <link.h>

#include "CLinux.h"

/* 1 once this copy of the core is in use. Other copies read it through the note. */
__attribute__((visibility("hidden"))) int32_t rl_core_claimed;

/* An ELF note of owner "RunLoop", type 1: the distance from the note's contents to rl_core_claimed. With it a copy of
 * the core finds the other copies in its process, whatever symbols they hide. */
__asm__(".pushsection .note.runloop, \"a\", @note\n"
        "    .balign 4\n"
        "    .long 8, 4, 1\n"
        "    .asciz \"RunLoop\"\n"
        "    .long rl_core_claimed - .\n"
        ".popsection\n");

static const char note_owner[8] = "RunLoop";

/* Looks through one loaded file's notes for the claim word of a core other than this one. Stops at a claimed one. */
static int find_other_claim(struct dl_phdr_info *file, size_t size, void *unused) {
    (void)size;
    (void)unused;
    for (int part = 0; part < file->dlpi_phnum; part++) {
        const ElfW(Phdr) *segment = &file->dlpi_phdr[part];
        if (segment->p_type != PT_NOTE) continue;
        const char *cursor = (const char *)(file->dlpi_addr + segment->p_vaddr);
        const char *end = cursor + segment->p_memsz;
        while (cursor + sizeof(ElfW(Nhdr)) <= end) {
            const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)cursor;
            const char *owner = cursor + sizeof *note;
            const char *contents = owner + ((note->n_namesz + 3u) & ~3u);
            if (note->n_type == 1 && note->n_namesz == sizeof note_owner && note->n_descsz == 4 &&
                memcmp(owner, note_owner, sizeof note_owner) == 0) {
                int32_t distance;
                memcpy(&distance, contents, sizeof distance);
                const int32_t *claim = (const int32_t *)(contents + distance);
                if (claim != &rl_core_claimed && __atomic_load_n(claim, __ATOMIC_SEQ_CST)) return 1;
            }
            cursor = contents + ((note->n_descsz + 3u) & ~3u);
        }
    }
    return 0;
}

void rl_core_claim(void) { __atomic_store_n(&rl_core_claimed, 1, __ATOMIC_SEQ_CST); }

bool rl_core_claimed_elsewhere(void) { return dl_iterate_phdr(find_other_claim, NULL) != 0; }
