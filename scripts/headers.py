# SPDX-License-Identifier: MIT
"""Reads the public headers: their comments, and what these are about. The manual pages (scripts/man) and the manual in HTML
(scripts/manual) are made of it.
"""
import re

#: What starts an entry of a comment that is about the whole declaration.
SECTIONS = ("Returns", "Errors", "Threads", "Ownership", "Reentrancy", "CF")
NOISE = re.compile(r"\b(RL_EXPORT|RL_NULLABLE|RL_NONNULL|RL_WARN_UNUSED_RESULT|RL_NOESCAPE|RL_SENDABLE|static inline|extern)\b ?")


def body(comment):
    """The lines of a comment without its stars."""
    lines = [re.sub(r"^\s*\* ?", "", line) for line in comment.strip("/* \n").split("\n")]
    return [line.rstrip() for line in lines]


class Declaration:
    """A comment and what it is about."""

    def __init__(self, comment, code, header):
        self.header = header
        lines = body(comment)
        end = lines.index("") if "" in lines else len(lines)
        self.summary = " ".join(lines[:end]).strip()
        self.code = code
        self.functions = [name for name in re.findall(r"\b(RL[A-Z]\w*[^_\W]) *\((?! *\*)", self.prototypes())
                          if not name.startswith("RL_")]
        self.functions = list(dict.fromkeys(self.functions))
        declared = re.findall(r"^\}\s*(RL\w+);|\(\*(?:RL_\w+ )?(RL[A-Z]\w*)\)\(|RL_(?:ENUM|OPTIONS)\(\w+, (RL\w+)\)|"
                              r"^typedef [^({]*?\b(RL\w+);|\b(kRL\w+)", code, re.M)
        self.names = list(dict.fromkeys(name for names in declared for name in names if name))
        parameters = set(re.findall(r"(\w+)(?=\s*[,)](?!\())", self.prototypes()))
        self.entries = self.split(lines[end + 1:], parameters)

    def prototypes(self):
        """The declarations, without what only compilers want and without the bodies of inline functions."""
        text = re.sub(r"/\*.*?\*/", "", self.code, flags=re.S)
        text = re.sub(r"\)\s*(RL_WARN_UNUSED_RESULT)?\s*\{.*?^\}", ");", text, flags=re.S | re.M)
        text = re.sub(r"^\s*#.*?(?<!\\)$", "", text, flags=re.M)
        return re.sub(r"[ \t]+", " ", re.sub(r"\s*\n\s*", " ", NOISE.sub("", text))).replace("* ", "*")

    @staticmethod
    def split(lines, parameters):
        """(name, text) of each entry; what stands before the first has no name."""
        names = "|".join(sorted(parameters)) or "-"
        inner = re.compile(rf"(?:^|(?<=[.;] ))({'|'.join(SECTIONS)}|(?:{names})(?:, (?:{names}))*): ")
        entries = [("", [])]
        for line in lines:
            rest = line
            start = re.match(r"([a-zA-Z_][\w, ]{0,40}?): (.*)$", line)
            if start and (start[1] in SECTIONS or start[1][0].islower()):
                entries.append((start[1], []))
                rest = start[2]
            # Further sections in the same line.
            while True:
                more = inner.search(rest)
                if not more:
                    break
                entries[-1][1].append(rest[:more.start()].strip())
                entries.append((more[1], []))
                rest = rest[more.end():]
            entries[-1][1].append(rest.strip())
        return [(name, " ".join(text).strip()) for name, text in entries if " ".join(text).strip()]


def read(path):
    """The comment at the top of a header, behind the licence's name, and a Declaration for each commented one."""
    text = path.read_text()
    top = re.search(r"^/\*\n.*?\*/", text, re.S | re.M)[0]
    found = re.finditer(r"/\*\*(.*?)\*/\n(.*?)(?=\n\n/\*|\n\nRL_HEADER_END|\n\n#endif|\Z)", text, re.S)
    return top, [Declaration(match[1], match[2], path.name) for match in found]
