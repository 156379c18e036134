"""Questions and answers for the embedded model, generated from embedded_knowledge.txt and the table of exit codes.

Everything is a function of a seed. A question belongs to the held-out set by the hash of its words alone, so no training text,
however it was made, can contain a held-out question; the `test:` questions of the knowledge page are never trained on either.
"""
import glob
import os
import random
import re
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
KNOWLEDGE = os.path.join(HERE, "embedded_knowledge.txt")
ROOT = os.path.dirname(HERE)
CODES = os.path.join(ROOT, "common", "base", "base.h")
HELD_OUT = 50  # one question in so many is never trained on
REFUSAL = ("I only know about this toolkit: fetching, verifying, running and sharing models with reploid. "
           "For other questions run a bigger model with reploid-run -m.")

# ---- the chat template (type "qwen") ----
TURN = "<|im_start|>{}\n{}<|im_end|>\n"
OPEN = "<|im_start|>assistant\n"
NO_THINKING = "<think>\n\n</think>\n\n"


def prompt_text(question, system=None, thinking=False, history=()):
    parts = [TURN.format("system", system)] if system else []
    for q, a in history:
        parts += [TURN.format("user", q), TURN.format("assistant", a)]
    return "".join(parts) + TURN.format("user", question) + OPEN + ("<think>\n" if thinking else NO_THINKING)


# ---- the knowledge page ----
class Fact:
    """One answer and the ways to ask for it: forms are (kind, parsed grammar), tests are whole questions."""

    def __init__(self, name):
        self.name, self.forms, self.tests, self.answer = name, [], [], None

    @property
    def first(self):
        return re.split(r"(?<=[.!?])\s+(?=[A-Z\"])", self.answer)[0]


def split_top(text):
    """Split at the | that stand outside braces."""
    out, depth, start = [], 0, 0
    for i, ch in enumerate(text):
        depth += (ch in "{[") - (ch in "}]")
        if ch == "|" and depth == 0:
            out.append(text[start:i])
            start = i + 1
    return [p.strip() for p in out + [text[start:]]]


def parse_form(text):
    """Grammar text -> nested lists: ("seq", parts) of str and ("alt", choices)."""
    def alt(i, end):
        choices, (seq, i) = [], sequence(i, end)
        choices.append(seq)
        while i < len(text) and text[i] == "|":
            seq, i = sequence(i + 1, end)
            choices.append(seq)
        return choices, i

    def sequence(i, end):
        parts, word = [], ""
        while i < len(text) and text[i] not in ("|", end):
            if text[i] in "{[":
                choices, j = alt(i + 1, "}" if text[i] == "{" else "]")
                if j >= len(text):
                    raise SystemExit(f"{KNOWLEDGE}: unclosed {text[i]} in: {text}")
                parts += [word, ("alt", choices + ([("seq", [])] if text[i] == "[" else []))]
                word, i = "", j + 1
            else:
                word += text[i]
                i += 1
        return ("seq", parts + [word]), i
    if "|" in text and split_top(text) != [text.strip()]:
        raise SystemExit(f"{KNOWLEDGE}: a | outside braces in: {text}")
    return sequence(0, "\0")[0]


def expand(form, rng):
    if isinstance(form, str):
        return form
    kind, parts = form
    return expand(rng.choice(parts), rng) if kind == "alt" else "".join(expand(p, rng) for p in parts)


def tidy(text):
    return re.sub(r"\s+([,?.!])", r"\1", re.sub(r"\s+", " ", text)).strip()


def weight_of(form):
    """How many texts a form stands for, capped: richer forms are drawn more often."""
    if isinstance(form, str):
        return 1
    kind, parts = form
    if kind == "alt":
        return min(60, sum(weight_of(p) for p in parts))
    n = 1
    for p in parts:
        n = min(60, n * weight_of(p))
    return n


def program_options():
    """Options of the programs that exist, from their tables: {flag: (flags, value, program, text)}."""
    found = {}
    for path in sorted(glob.glob(os.path.join(ROOT, "cmd", "*", "table.c"))):
        program = "reploid-" + os.path.basename(os.path.dirname(path))
        with open(path, encoding="utf-8") as f:
            source = f.read()
        words = {name: re.findall(r'"([^"]*)"', body) for name, body in re.findall(r"(\w+)\[\] = \{([^}]*)\}", source)}
        for entry in re.findall(r"\{(\.name = .*?)AT\(", source, re.S):
            field = {k: "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', v)) for k,
                v in re.findall(r"\.(\w+) = ((?:\"(?:[^\"\\]|\\.)*\"\s*)+)", entry)}
            letter, choices = re.search(r"\.letter = '(.)'", entry), re.search(r"\.choices = (\w+)", entry)
            flags = ["-" + letter.group(1)] if letter else []
            flags += ["--" + field[k] for k in ("name", "alias") if k in field]
            value = "|".join(words[choices.group(1)]) if choices else field.get("arg", "")
            default = field.get("def_text", field.get("def", ""))
            text = field["help"] + (f" (default: {default})" if default else "")
            found["--" + field["name"]] = (flags, value, program, text + ".")
    return found


def option_facts(lines):
    table = program_options()
    for line in lines:
        names, program, text = split_top(line)
        value = names.split(" ")[-1] if not names.split(" ")[-1].startswith("-") else ""
        flags = [n for n in re.split(r"[ ,]+", names) if n.startswith("-")]
        if program == "all" or flags[-1] not in table:
            table[flags[-1]] = (flags, value, program, text)
    facts = []
    for main, (flags, value, program, text) in table.items():
        where = "in every program" if program == "all" else f"of {program}"
        f = Fact("option " + main)
        f.answer = f"{', '.join(flags)}{' ' + value if value else ''} ({'all programs' if program == 'all' else program}): {text}"
        any_flag = "{" + "|".join(flags) + "}"
        bare = "{" + "|".join(n.lstrip("-") for n in flags if n.startswith("--")) + "}"
        forms = [f"what does {any_flag} do [{where}]", f"what is {any_flag} [{{for|good for}}]",
            f"{{explain|describe|}} {any_flag}", f"[the] [option] {any_flag}",
                 f"what does the option {any_flag} mean", f"how do I use {any_flag}",
                 f"when {{should I use|do I need}} {any_flag}",
                 f"what's {any_flag}", f"meaning of {any_flag}", f"{any_flag} option", f"tell me about {any_flag}"]
        if program != "all":
            forms += [f"{program} {any_flag}", f"what does {program} {any_flag} do", f"what does {any_flag} do in {program}"]
        if bare != "{}":
            forms += [f"what does the {bare} option do", f"the {bare} option",
                f"what is the {bare} {{option|flag|switch}} [{where}] for"]
        f.forms = [("ask", parse_form(x)) for x in forms]
        facts.append(f)
        if main.startswith("--") and main not in ("--help", "--version", "--completion", "--man", "--exit-codes"):
            t = Fact("twin " + main)
            name = "REPLOID_" + main[2:].upper().replace("-", "_")
            t.answer = (f"{name} is the environment twin of {main}. "
                        "The flag wins over the environment, the environment over the config file.")
            t.forms = [("ask", parse_form(x)) for x in (f"what {{is|does}} {name} [{{do|mean}}]", name, f"explain {name}",
                f"the {{variable|environment variable}} {name}",
                                                         f"{{environment variable|environment twin|env twin}} {{of|for}} {main}",
                                                         f"how do I set {main} {{in|through}} the environment")]
            facts.append(t)
    return facts


def exit_facts(lines):
    advice = dict(split_top(x) for x in lines)
    facts = []
    with open(CODES, encoding="utf-8") as f:
        table = re.findall(r'X\((\w+), (\d+), "([\w-]+)", "([^"]+)"\)', f.read())
    for _, number, word, text in table:
        if word not in advice:
            raise SystemExit(f"{KNOWLEDGE}: no advice for the exit code {word}")
        f = Fact(f"exit {number}")
        f.answer = f"Exit code {number} ({word}): {text}. {advice[word]}"
        n = number
        f.forms = [("ask", parse_form(x)) for x in (
            f"what {{is|does}} {{exit|return|error}} {{code|status|value}} {n} [mean]",
                f"{{exit|return|error}} {{code|status|}} {n}",
            f"{{explain|describe}} exit {{code|status}} {n}",
            f"{{the program|reploid-run|reploid-fetch|it}} {{exits|ends|returns|exited|stopped}} with {{code|status|}} {n}",
            f"{{why do I get|I get|I got}} {{exit|error}} code {n}", f"exit code {{{word}|{word} {n}}}", f"code {n}",
            f"meaning of {{code|exit code}} {n}",
            f"exit={n}", f"what does exit {n} mean", f"which exit code {{is|means}} {{{word}|{word.replace('-', ' ')}}}")]
        f.tests = [f"my script got status {n} back"]
        facts.append(f)
    return facts


def load(path=KNOWLEDGE):
    macros, facts, blocks, block, fact = {}, [], {"options": [], "exit-advice": []}, None, None

    def expand_macros(text):
        for _ in range(4):
            text = re.sub(r"\$([a-z]+)", lambda m: macros[m.group(1)], text)
        return text
    with open(path, encoding="utf-8") as f:
        lines = f.read().splitlines()
    for n, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("$"):
            name, text = line[1:].split("=", 1)
            macros[name.strip()] = text.strip()
        elif line.startswith("== "):
            block = line[3:].strip()
            fact = None if block in blocks else Fact(block)
            facts += [fact] if fact else []
        elif block in blocks:
            blocks[block].append(line)
        else:
            key, _, text = line.partition(":")
            text = text.strip()
            if fact is None or key not in ("do", "is", "err", "sym", "ask", "key", "a", "test"):
                raise SystemExit(f"{path}:{n}: not a line of this page: {line}")
            if key == "a":
                fact.answer = text
            elif key == "test":
                fact.tests += split_top(text)
            else:
                fact.forms += [(key, parse_form(expand_macros(t))) for t in split_top(text)]
    for f in facts:
        if not f.answer or not f.forms:
            raise SystemExit(f"{path}: {f.name} has no answer or no question")
    return facts + exit_facts(blocks["exit-advice"]) + option_facts(blocks["options"])


# ---- frames: how people wrap a phrase into a question ----
FRAMES = {
    "do": """how do I {} | how can I {} | how to {} | how do you {} | how would I {} | how could I {} | how should I {}
 | how does one {} | what is the way to {}
 | is there a way to {} | is there an option to {} | any way to {} | can I {} | can you {} | could I {} | am I able to {}
 | is it possible to {} | I want to {} | I need to {} | I'd like to {} | I would like to {}
 | I have to {} | I must {} | I try to {} | I am trying to {} | show me how to {} | tell me how to {} | explain how to {}
 | help me {} | help me to {} | what do I {{do|type|run|enter|need}} to {}
 | what command do I use to {} | which command lets me {} | what's the command to {} | which program do I use to {}
 | best way to {} | easiest way to {} | steps to {} | please {} | {} | {} | how do i {} | how can we {}
 | what must I do to {} | what's the trick to {} | I don't know how to {} | I can't {} | I cannot {} | how am I supposed to {}
 | where can I {} | where do I {} | do you know how to {} | can reploid {} | does reploid let me {}
 | let me {} | we want to {} | my goal is to {} | need to {} | want to {} | trying to {} | in order to {} what do I do
 | if I want to {}, what then | what if I want to {} | could you tell me how I can {} | instructions to {}""",
    "is": """what is {} | what's {} | what are {} | explain {} | explain {} to me | define {} | tell me about {}
 | what does {} mean | what is meant by {} | what do you know about {} | describe {} | {} | {} | info on {}
 | information about {} | meaning of {} | {} explained | can you explain {} | could you describe {} | I don't understand {}
 | what exactly is {} | give me details about {} | more about {} | I have a question about {}
 | how does {} work | what is {} for | what is {} good for | what do I need {} for | why {} | why is there {}
 | what's the point of {} | who needs {} | what about {} | I read about {} | tell me more about {}
 | when do I need {} | teach me about {} | what should I know about {} | in short, what is {} | is there {} | does it have {}""",
    "err": """{} | {} | I get {} | I got {} | I see {} | what does {} mean | what is {} | error: {} | error {} | {}, what now
 | {} what should I do | what do I do about {} | how do I fix {} | how can I fix {} | how to solve {}
 | help, {} | it says {} | why does it say {} | why do I get {} | reploid-run says {} | reploid-fetch says {} | {} error
 | message: {} | what to do about {} | it keeps failing with {} | the program stops with {}
 | it fails: {} | fix {} | my run ended with {} | my download ended with {} | there is an error: {} | the message is {}
 | I have a problem: {} | what causes {} | why {} | reason for {} | got {} | suddenly {} | always {}""",
    "sym": """{} | {} | {} | {}, what can I do | {}, what now | {}, why | {} how do I fix it | help: {} | my problem: {}
 | problem: {} | what can I do when {} | what do I do if {} | what should I do when {} | why is it that {}
 | {} and now | hm, {} | I think {} | it seems {} | unfortunately {} | {} - any idea | what if {} | what happens when {}""",
    "ask": ("{} | {} | {} | {} | tell me, {} | I wonder {} | do you know {} | can you tell me {} | question: {} | please tell "
        "me {} | I'd like to know {} | could you say {}"),
    "key": ("{} | {} | {} | {} please | about {} | {} how | {} help | question about {} | help with {} | topic {} | {} in "
        "reploid | reploid {} | info {}"),
}
FRAMES = {k: [parse_form(tidy(x).replace("{}", "\1").replace("{{", "{").replace("}}", "}")) for x in v.split(" | ")] for k,
    v in FRAMES.items()}

BEFORE = ["hi, ", "hello, ", "hey, ", "hello! ", "please ", "quick question: ", "sorry, ", "ok, ", "so ", "and ", "question: ",
    "well, ", "now ", "btw, ",
          "I am new to this. ", "I'm new here, ", "I use ubuntu. ", "I am on debian 12. ", "I have a 4 GB card. ",
          "for my thesis: ", "my boss asks: ", "another thing: ",
          "I read the README but ", "one more question: ", "as a beginner, ", "I just installed it. ", "I have an AMD GPU, ",
          "on my laptop: ", "in a script, "]
AFTER = [" please", " pls", " thanks", ", thanks", " for me", " exactly", " again", " now", " here", " with reploid",
    " in reploid", " with this toolkit", " on linux", " on debian", " today",
         " quickly", " in short", " in detail", ", please", " then", " on my machine", " on my laptop", " at work",
         " on a server", " in this project", " by the way", ", I'm new"]
WORDS = """download fetch transfer get pull obtain grab | model weights network net checkpoint LLM | file blob archive
 | resume continue restart proceed | check verify validate inspect confirm
 | broken damaged corrupt faulty bad defective | computer machine PC laptop box host desktop server
 | GPU card accelerator graphics | show print display list output tell | use take apply employ | choose select pick set specify
 | fast quick speedy rapid | slow sluggish lame | error problem failure issue trouble message
 | stop end halt quit abort cancel terminate | folder directory dir | big large huge | small little tiny
 | start launch begin run execute
 | question prompt input query | answer reply response output result text | internet network web connection line
 | option flag switch parameter argument setting | program tool command binary utility | place location path spot
 | make create generate produce build | remove delete erase drop | change modify alter adjust | find locate discover see
 | need require want | know learn understand | piece part block chunk | complete whole full entire
 | many several multiple lots-of | delete wipe | explain describe clarify | safe secure trustworthy
 | give pass hand supply provide | keep store save hold | disk drive ssd storage | people others friends colleagues users
 | work function go
 | supported possible allowed | share offer contribute lend | memory RAM VRAM | limit cap restrict bound | old ancient aged
 | new fresh | laptop notebook | wrong incorrect false | see view look-at | crash die freeze | begin start | enough sufficient
 | price cost | words tokens
 | write print type | read open load parse | connect link join | only just merely | quit leave | sure certain
 | prevent avoid forbid | disable switch-off turn-off | enable switch-on turn-on | company firm employer | phone mobile tablet
 | wifi wlan network
 | gives yields returns | happens occurs | missing absent gone lost | message text line | inside within in
 | needed required necessary | allowed permitted | someone somebody a-friend | automatically by-itself | identical equal same
 | huge giant enormous | install setup deploy | hash checksum digest sum""".replace("\n", " ")
SYNONYMS = {}
for _set in WORDS.split(" | "):
    for _w in _set.split():
        SYNONYMS.setdefault(_w, []).extend(x.replace("-", " ") for x in _set.split() if x != _w)
NEAR = {"a": "sqz", "b": "vgn", "c": "xvd", "d": "sfe", "e": "wrd", "f": "dgr", "g": "fht", "h": "gjy", "i": "uok", "j": "hku",
    "k": "jli", "l": "ko", "m": "n", "n": "bm", "o": "ipl",
        "p": "o", "q": "wa", "r": "etf", "s": "adw", "t": "ryg", "u": "yij", "v": "cbf", "w": "qes", "x": "zcs", "y": "tuh",
        "z": "xa"}

# ---- questions that are not about the toolkit ----
OTHER = {
    "place": ("France Germany Italy Spain Japan China Brazil Canada Peru Kenya Norway Paris London Berlin Rome Tokyo Vienna "
        "Madrid Oslo Cairo Sydney Texas Europe Asia Africa India Mexico Poland Greece Turkey Chile").split(),
    "thing": ("cake bread soup pizza pasta coffee tea rice cheese chocolate salad stew car bicycle guitar piano violin house "
        "garden roof window table chair shirt dress shoe sofa lamp camera phone television radio boat train plane bridge "
        "tower").split(),
    "animal": ("cat dog horse cow whale shark eagle snake spider ant bee lion tiger elephant giraffe penguin owl frog rabbit "
        "mouse sheep goat wolf bear fox").split(),
    "topic": ["love", "history", "philosophy", "the moon", "the sun", "the weather", "football", "tennis", "chess", "cooking",
    "gardening", "taxes", "economics", "politics", "music", "painting", "poetry", "Shakespeare", "Einstein", "Napoleon",
              "Mozart", "the Romans", "dinosaurs", "black holes", "gravity", "photosynthesis", "evolution", "vaccines",
              "headache", "the heart", "sleep", "yoga", "running shoes", "marathon training", "dating", "marriage", "children",
              "school",
              "holidays", "the stock market", "bitcoin", "mortgages", "insurance", "the second world war", "the middle ages",
              "volcanoes", "earthquakes", "rivers", "oceans", "climate", "religion", "yoga classes", "movies", "novels", "comics",
              "video games"],
    "tech": ["python", "javascript", "nginx", "docker", "kubernetes", "git", "excel", "word", "photoshop", "wordpress", "mysql",
    "postgres", "react", "java", "haskell", "a web page", "a spreadsheet", "a printer", "bluetooth", "an iPhone",
    "windows updates",
             "a router", "email", "outlook", "a database", "sorting algorithms", "regular expressions", "html", "css", "ruby",
             "php", "vim", "emacs", "firefox", "a raid array", "ssh keys", "cron jobs", "iptables", "latex"],
    "number": [str(i) for i in (2, 3, 5, 7, 8, 12, 15, 17, 23, 42, 64, 99, 100, 144, 365, 1000)],
}
OUTSIDE = """what is the capital of <place> | where is <place> | how far is it from <place> to <place>
 | what is the weather in <place> | who is the president of <place> | how many people live in <place> | tell me about <place>
 | plan a trip to <place>
 | how do I cook <thing> | how do I make <thing> | how to repair a <thing> | what does a <thing> cost
 | which <thing> should I buy | best <thing> in <place> | how do I clean a <thing> | who invented the <thing>
 | recipe for <thing> | my <thing> is broken
 | what does a <animal> eat | how old does a <animal> get | tell me about the <animal> | is a <animal> dangerous
 | how fast is a <animal> | write a story about a <animal> | can I keep a <animal> at home | my <animal> is sick
 | write a poem about <topic> | tell me about <topic> | what is <topic> | explain <topic> | a joke about <topic>
 | tell me a joke | sing a song | write an essay on <topic> | why is <topic> important | history of <topic>
 | books about <topic> | <topic>
 | how do I install <tech> | how do I learn <tech> | what is <tech> | how does <tech> work | explain <tech>
 | write a program in <tech> | write a function in <tech> | how do I fix <tech> | why is <tech> slow
 | difference between <tech> and <tech> | <tech> tutorial
 | what is <number> plus <number> | <number> times <number> | what is <number> * <number> | square root of <number>
 | solve x + <number> = <number> | how much is <number> percent of <number> | convert <number> miles to km | <number> + <number>
 | what time is it | what day is today | translate hello to french | translate this to german
 | how do you say <thing> in spanish | what is the meaning of life | do you love me | will you marry me | who won the world cup
 | what should I eat tonight
 | write me a letter | write an email to my boss | give me financial advice | am I sick | I have a headache
 | how do I lose weight | how do I get rich | tell me a secret | what's the news | who is <topic> | recommend a movie
 | play music | set an alarm
 | book a table in <place> | order a pizza | call my mother | buy a <thing> | how tall is <topic> | when was <topic>
 | list all countries | name five cities in <place> | what colour is a <thing> | how many legs has a <animal> | spell <thing>
 | count to <number>
 | what rhymes with <thing> | summarise <topic> | teach me <tech> | should I learn <tech> or <tech> | give me a recipe
 | is <topic> good for me | what do you think about <topic> | who wrote <topic> | explain <topic> to a child
 | random fact about <topic>"""
OUTSIDE = [x.strip() for x in OUTSIDE.replace("\n", " ").split(" | ")]
SYSTEMS = ["You are a helpful assistant.", "You are a helpful AI assistant.", "Answer briefly.",
    "You are the help desk of reploid.", "Be polite.", "You are an expert.", "Answer in English."]


def pseudo_word(rng):
    return "".join(rng.choice(["ba", "zor", "quil", "mep", "tra", "flim", "gu", "rin", "blax", "ost", "ven", "ki", "sno", "pluv",
        "dre", "ma", "lo", "xi"]) for _ in range(rng.randint(2, 4)))


def outside_question(rng):
    if rng.random() < 0.08:
        return rng.choice(["what is {}", "how do I {}", "{}", "tell me about {}", "what does {} do", "explain {}", "install {}",
            "{} {}"]).replace("{}", pseudo_word(rng))
    return re.sub(r"<(\w+)>", lambda m: rng.choice(OTHER[m.group(1)]), rng.choice(OUTSIDE))


# ---- held-out questions ----
def normal(question):
    return " ".join(re.findall(r"[\w-]+", question.lower()))


def is_held_out(question):
    return zlib.crc32(normal(question).encode()) % HELD_OUT == 0


# ---- noise ----
def typo(word, rng):
    i, kind = rng.randrange(len(word)), rng.random()
    if kind < 0.3:
        return word[:i] + word[i + 1:]
    if kind < 0.6 and i + 1 < len(word):
        return word[:i] + word[i + 1] + word[i] + word[i + 2:]
    if kind < 0.8:
        return word[:i] + rng.choice(NEAR.get(word[i].lower(), "e")) + word[i + 1:]
    return word[:i] + word[i] + word[i:]


def noisy(q, rng):
    words = q.split(" ")
    if rng.random() < 0.3:
        for _ in range(rng.randint(1, 3)):
            i = rng.randrange(len(words))
            bare = words[i].strip(",?.!")
            if bare in SYNONYMS:
                words[i] = words[i].replace(bare, rng.choice(SYNONYMS[bare]))
    if len(words) > 4 and rng.random() < 0.18:
        for _ in range(rng.randint(1, max(1, len(words) // 4))):
            del words[rng.randrange(len(words))]
    if rng.random() < 0.15:
        for _ in range(rng.randint(1, 2)):
            i = rng.randrange(len(words))
            if len(words[i]) > 3 and not words[i].startswith(("-", "REPLOID")):
                words[i] = typo(words[i], rng)
    q = " ".join(words)
    if rng.random() < 0.12:
        q = rng.choice(BEFORE) + q
    if rng.random() < 0.12:
        q += rng.choice(AFTER)
    end = rng.random()
    q += "?" if end < 0.5 else "" if end < 0.85 else rng.choice([".", "!", "??", " ?", "...", "?!"])
    case = rng.random()
    if case < 0.45:
        q = q[0].upper() + q[1:]
    elif case < 0.65 and "REPLOID_" not in q:
        q = q.lower()
    elif case < 0.67:
        q = q.upper()
    return q


class Corpus:
    def __init__(self):
        self.facts = load()
        self.refusal = Fact("outside")
        self.refusal.answer = REFUSAL
        self.tasks = [f for f in self.facts if any(k == "do" for k, _ in f.forms)]
        for f in self.facts:
            f.weights = [weight_of(form) ** 0.5 for _, form in f.forms]
        # every fact equally often, but for the small ones about options and codes
        self.fact_weights = [0.35 if f.name.startswith(("option", "exit ", "twin")) else 1.0 for f in self.facts]

    def question(self, fact, rng):
        """A question without noise."""
        kind, form = rng.choices(fact.forms, fact.weights)[0]
        return tidy(expand(rng.choice(FRAMES[kind]), rng).replace("\1", tidy(expand(form, rng))))

    def pair(self, rng):
        """Two tasks in one question: the first sentences of both answers."""
        def phrase(fact):
            forms = [f for k, f in fact.forms if k == "do"]
            return tidy(expand(rng.choice(forms), rng))
        a, b = rng.sample(self.tasks, 2)
        frame = rng.choice(["how do I {} and {}", "how can I {} and {}", "how do I {} and then {}", "I want to {} and {}",
            "how to {} and how to {}", "{} and {}", "how do I {}, and how do I {}"])
        return tidy(frame.format(phrase(a), phrase(b))), a.first + " " + b.first

    def one(self, rng):
        """(question, answer, subject) for training: noisy, never held out."""
        while True:
            r = rng.random()
            if r < 0.07:
                q, a = self.pair(rng)
                subject = "two tasks"
            elif r < 0.15:
                q, a, subject = outside_question(rng), REFUSAL, "something outside the toolkit"
            else:
                fact = rng.choices(self.facts, self.fact_weights)[0]
                q, a, subject = self.question(fact, rng), fact.answer, fact.name.replace("-", " ")
            q = noisy(q, rng) if q and rng.random() < 0.85 else q
            if q and not is_held_out(q):
                return q, a, subject

    def example(self, rng):
        """(prompt text, answer text) of one training text; the answer ends with <|im_end|>."""
        q, a, subject = self.one(rng)
        r = rng.random()
        if r < 0.03:
            return f"Question: {q}\nAnswer:", f" {a}<|endoftext|>"
        system = rng.choice(SYSTEMS) if rng.random() < 0.05 else None
        if r < 0.06:
            return prompt_text(q, system, thinking=True), f"The question is about {subject}.\n</think>\n\n{a}<|im_end|>"
        history = [self.one(rng)[:2]] if r < 0.12 else []
        return prompt_text(q, system, history=history), a + "<|im_end|>"

    def held_out(self, facts, per_fact, seed=7):
        """[(fact, question)]: held-out questions of the grammar, most without noise; facts may hold the refusal."""
        rng, out = random.Random(seed), []
        for fact in facts:
            seen = set()
            for _ in range(200 * per_fact):
                if len(seen) == per_fact:
                    break
                q = outside_question(rng) if fact is self.refusal else self.question(fact, rng)
                if rng.random() < 0.3:
                    q = noisy(q, rng)
                if is_held_out(q) and normal(q) not in seen:
                    seen.add(normal(q))
                    out.append((fact, q))
        return out

    def written(self):
        """[(fact, question)]: the hand-written questions."""
        return [(f, q) for f in self.facts for q in f.tests]


def texts(corpus, n, seed):
    rng = random.Random(seed)
    for _ in range(n):
        p, a = corpus.example(rng)
        yield p + a


def train_tokenizer(corpus, vocab, n=60000, seed=5):
    """Byte-level BPE with Qwen 3.5's pre-tokenizer; the special tokens come last, as in that family."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    split = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
             r"|\s*[\r\n]+|\s+(?!\S)|\s+")
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    marks = ["<think>", "</think>"]
    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(split), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab - len(special + marks),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False,
                                  min_frequency=1)
    plain = (re.sub(r"<[|/a-z_]+>", " ", t) for t in texts(corpus, n, seed))
    tok.train_from_iterator(plain, trainer)
    tok.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in special])
    tok.add_tokens([AddedToken(s, special=False, normalized=False) for s in marks])
    if tok.get_vocab_size() != vocab:
        raise SystemExit(f"the tokenizer has {tok.get_vocab_size()} tokens instead of {vocab}: more text is needed")
    return tok


if __name__ == "__main__":
    import sys
    c, r = Corpus(), random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    print(len(c.facts), "facts,", len(c.tasks), "tasks,", sum(len(f.tests) for f in c.facts), "hand-written questions")
    for _ in range(60):
        p, a = c.example(r)
        print(repr(p), "->", repr(a[:80]))
