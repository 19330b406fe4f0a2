import CLinux

/// Ends the process with a line on standard error that names the function and what was wrong with the call.
///
/// For misuse that has no answer. It allocates nothing, so that it also works in a signal handler.
@inline(never)
func trap(_ function: StaticString, _ message: StaticString) -> Never {
    writeToStandardError(function)
    writeToStandardError(": ")
    writeToStandardError(message)
    writeToStandardError("\n")
    abort()
}

/// The same with the whole text.
@inline(never)
func trap(_ text: UnsafePointer<CChar>) -> Never {
    _ = rl_sys_write(STDERR_FILENO, text, strlen(text))
    writeToStandardError("\n")
    abort()
}

private func writeToStandardError(_ text: StaticString) {
    _ = rl_sys_write(STDERR_FILENO, text.utf8Start, text.utf8CodeUnitCount)
}
