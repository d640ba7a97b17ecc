"""How wide classes are, their methods and fields, and which names files define, read from the text. Good enough for this project's
style; no compiler is needed."""

import dataclasses
import re

COMMENT_OR_LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
OPERATOR = re.compile(r"\boperator\s*(?:\(\)|\[\]|[^\w\s(]+|\w+)")
TOKEN = re.compile(r"[A-Za-z_]\w*|::|\d[\w.']*|\S")
ACCESS = {"public", "protected", "private"}
NO_MEMBER = {"using", "typedef", "friend", "static_assert", "enum", "extern"}


@dataclasses.dataclass
class Class:
    name: str
    methods: int = 0  # declared, but for those that are defaulted or deleted
    fields: int = 0   # of an object: static ones aside


@dataclasses.dataclass
class Namespace:
    name: str  # empty: what stands in it is local to the file


def tokens(text):
    text = COMMENT_OR_LITERAL.sub(lambda found: "0" if found.group()[0] in "\"'R" else " ", text)
    return TOKEN.findall(OPERATOR.sub("operatorX", DIRECTIVE.sub("", text)))


def without_arguments(statement):
    """Without what stands in angle brackets, which may hold parentheses."""
    kept, depth = [], 0
    for number, token in enumerate(statement):
        if token == "<" and (depth or (number and re.match(r"\w", statement[number - 1]))):
            depth += 1
        elif token == ">" and depth:
            depth -= 1
        elif not depth:
            kept.append(token)
    return kept


def head_of(statement):
    """What a statement declares with: without labels, attributes, template parameters and the initial value."""
    while len(statement) > 1 and statement[0] in ACCESS and statement[1] == ":":
        statement = statement[2:]
    kept = without_arguments(statement)
    text = re.sub(r"(\[ \[ .*? \] \] |alignas \( \w+ \) )", "", " ".join(kept) + " ")
    return re.sub(r"^(template )+", "", text)


def count(member, owner):
    """Adds one member declaration to its class."""
    head = head_of(member)
    words = head.split()
    if not words or words[0] in NO_MEMBER or re.search(r"= (default|delete) $", head):
        return
    declared = head.split(" = ")[0]
    if re.search(r"[\w~] \(", declared) and not re.search(r"\( \*", declared.split(" (", 1)[1][:0] + declared[declared.find("("):][:4]):
        owner.methods += 1
    elif re.search(r"\w", declared) and "static" not in words and not re.fullmatch(r"(class|struct|union) \w+ ", declared):
        owner.fields += 1 + declared.count(" , ")


def type_name(statement):
    """The class that a statement opens; None: it opens something else."""
    head = head_of(statement).split(" : ")[0]
    found = re.search(r"\b(?:class|struct|union) (?:\w+ )*?((?:\w+ :: )*\w+) ?(?:final ?)?$", head)
    return found.group(1).replace(" ", "") if found and "(" not in head and "=" not in head and "enum" not in head.split() else None


def namespace_of(statement):
    """The namespace that a statement opens; a list of C declarations counts as one."""
    if statement[0] == "extern":
        return Namespace("C")
    return Namespace("::".join(word for word in statement if re.match(r"\w", word) and word not in ("namespace", "inline")))


def merged_name(statement):
    """What a block in a namespace defines that linkers merge, so that all files must define it alike: an enum, or an inline function
    with its parameters. None: it defines something else."""
    head = head_of(statement)
    if found := re.search(r"\benum (?:class |struct )?(\w+)", head):
        return found.group(1)
    start, *parameters = head.split(" (", 1)
    words = start.split()
    isMerged = bool({"inline", "constexpr"} & set(words)) or "template" in statement[:1]
    if not parameters or not isMerged or "static" in words or "=" in words:
        return None
    return f"{words[-1]}({parameters[0].split(' : ')[0].strip()}"


def merged_variable(statement):
    """The inline variable that a statement in a namespace defines."""
    words = re.sub(r"\[.*?\]", "", head_of(statement).split(" = ")[0]).split()
    return words[-1] if "inline" in words and "(" not in words else None


def skip_block(all_tokens, place):
    """The place behind the block that begins here."""
    depth = 0
    while place < len(all_tokens):
        depth += {"{": 1, "}": -1}.get(all_tokens[place], 0)
        place += 1
        if depth == 0:
            break
    return place


def definitions_of(text):
    """All classes, structs and unions that a file defines, nested ones by themselves; and the names in namespaces, not local to the
    file, that linkers merge."""
    all_tokens = tokens(text)
    found, merged, scopes, statement, place, parens = [], set(), [], [], 0, 0

    def note(name):
        if name and all(isinstance(scope, Namespace) and scope.name for scope in scopes):
            merged.add("::".join([*(scope.name for scope in scopes), name]))

    while place < len(all_tokens):
        token = all_tokens[place]
        owner = scopes[-1] if scopes and isinstance(scopes[-1], Class) else None
        parens += {"(": 1, ")": -1}.get(token, 0)
        if token == "{" and parens == 0:
            name = type_name(statement)
            if name:
                note(name)
                scopes.append(Class(name))
                found.append(scopes[-1])
                statement = []
            elif "namespace" in statement or (statement and statement[0] == "extern"):
                scopes.append(namespace_of(statement))
                statement = []
            else:
                if not owner:
                    note(merged_name(statement))
                place = skip_block(all_tokens, place)
                isInitial = place < len(all_tokens) and all_tokens[place] in (";", ",", "{")
                if not isInitial:
                    if owner:
                        count(statement, owner)
                    statement = []
                continue
        elif token == "}" and parens == 0:
            if scopes:
                scopes.pop()
            if all_tokens[place + 1:place + 2] == [";"]:
                place += 1
            statement = []
        elif token == ";" and parens == 0:
            if owner:
                count(statement, owner)
            else:
                note(merged_variable(statement))
            statement = []
        else:
            statement.append(token)
        place += 1
    return found, merged


def classes_of(text):
    """All classes, structs and unions that a file defines, nested ones by themselves."""
    return definitions_of(text)[0]


def merged_names(tree):
    """Names that linkers merge although several files of a tree, texts by path, define them: with the files."""
    homes = {}
    for path, text in tree.items():
        if path.endswith((".h", ".cpp")):
            for name in definitions_of(text)[1]:
                homes.setdefault(name, set()).add(path)
    return {name: paths for name, paths in homes.items() if len(paths) > 1}


def shared_names(tree):
    """Names that several files of a tree, texts by path, give to classes: with the files."""
    homes = {}
    for path, text in tree.items():
        if path.endswith((".h", ".cpp")):
            for each in classes_of(text):
                homes.setdefault(each.name, set()).add(path)
    return {name: paths for name, paths in homes.items() if len(paths) > 1}
