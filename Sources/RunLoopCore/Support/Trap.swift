// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// Ends the process after a line on standard error that names the function and says what is wrong.
///
/// For misuse that cannot be handled. It allocates nothing, so that it also works in a signal handler.
@inline(always)
func trap(_ function: StaticString, _ message: StaticString) -> Never {
    endProcess(function.utf8Start, message.utf8Start)
}

/// The texts end with 0.
@inline(never)
private func endProcess(_ function: UnsafePointer<UInt8>, _ message: UnsafePointer<UInt8>) -> Never {
    writeToStandardError(function)
    writeToStandardError((": " as StaticString).utf8Start)
    writeToStandardError(message)
    writeToStandardError(("\n" as StaticString).utf8Start)
    abort()
}

/// The same with the whole text.
@inline(never)
func trap(_ text: UnsafePointer<CChar>) -> Never {
    _ = rl_sys_write(STDERR_FILENO, text, strlen(text))
    writeToStandardError(("\n" as StaticString).utf8Start)
    abort()
}

private func writeToStandardError(_ text: UnsafePointer<UInt8>) {
    _ = rl_sys_write(STDERR_FILENO, text, strlen(UnsafeRawPointer(text).assumingMemoryBound(to: CChar.self)))
}

/// For a reference of another type than the function takes (S-ARG-3). A function of its own because nearly every call of the
/// library has a place that calls it.
@inline(always)
func trapForObject(_ function: StaticString) -> Never { trapForObject(function.utf8Start) }

@inline(never)
private func trapForObject(_ function: UnsafePointer<UInt8>) -> Never {
    endProcess(function, ("the object is of another type or was released too often" as StaticString).utf8Start)
}
