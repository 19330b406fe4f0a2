/* SPDX-License-Identifier: MIT */
/*
 * Linked into the library of a thread-sanitized build only.
 *
 * Besides the loads and stores themselves, swiftc reports to the sanitizer every access to a whole variable that
 * a mutating call or an inout argument begins. For a field of a structure behind a pointer the variable it names
 * is the structure, so a call on a field of the loop's own thread would count as a write to all the atomics that
 * other threads may touch beside it. These reports are dropped here; all loads, stores and atomic operations stay
 * instrumented, so a real race is still found.
 */
void __tsan_external_read(void *address, void *caller, void *tag);
void __tsan_external_write(void *address, void *caller, void *tag);

void __tsan_external_read(void *address, void *caller, void *tag) {
    (void)address;
    (void)caller;
    (void)tag;
}

void __tsan_external_write(void *address, void *caller, void *tag) {
    (void)address;
    (void)caller;
    (void)tag;
}
