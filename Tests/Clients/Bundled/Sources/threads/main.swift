// SPDX-License-Identifier: MIT
// A program of the client's, with a name that an example of RunLoop could have.
import CLinux
import RunLoopKit

RunLoop.main.perform { print("the client's threads: \(clients_number())") }
RunLoop.main.run(mode: .default, for: .zero)
