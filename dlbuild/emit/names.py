"""ONNX names become C identifiers: readable, unique whatever their case, and legal in C and C++."""

import re
from collections.abc import Iterable

LIMIT = 40
"""Most characters of an identifier made from an ONNX name, its model's prefix not counted."""

_C = """
auto break case char const continue default do double else enum extern float for goto if inline int
long register restrict return short signed sizeof static struct switch typedef union unsigned void
volatile while alignas alignof bool complex imaginary noreturn static_assert thread_local constexpr
nullptr typeof typeof_unqual asm fortran far near huge interrupt
"""
_CPP = """
and and_eq bitand bitor catch char8_t char16_t char32_t class co_await co_return co_yield compl
concept const_cast consteval constinit decltype delete dynamic_cast explicit export false friend
mutable namespace new noexcept not not_eq operator or or_eq private protected public
reinterpret_cast requires static_cast template this throw true try typeid typename using virtual
wchar_t xor xor_eq
"""
# Names of <math.h>, <string.h>, <stdlib.h> and <stdint.h> that a tensor or a kernel may well have:
# the compiler knows the functions even where no header declares them. Macros that some toolchains
# define in lower case are here too.
_LIBRARY = """
abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh div erf erfc exp exp2 expm1
fabs fdim floor fma fmax fmin fmod frexp gamma hypot ilogb index j0 j1 jn labs ldexp ldiv lgamma
llabs lldiv llrint llround log log10 log1p log2 logb lrint lround memchr memcmp memcpy memmove
memset modf nan nearbyint nextafter pow pow10 remainder remquo rindex rint round scalbln scalbn
select signal significand sin sincos sinh sqrt strcat strchr strcmp strcpy strlen strncmp strncpy
tan tanh tgamma time trunc y0 y1 yn
abort atexit atof atoi bsearch calloc exit free getenv malloc qsort rand realloc srand system
errno i386 isinf isnan isfinite isnormal linux main null signbit unix offsetof
"""
RESERVED = frozenset(f"{_C} {_CPP} {_LIBRARY}".split())
"""Lower-case words that no identifier of ours may be."""

_MODEL_NAME = re.compile(r"[a-z][a-z0-9_]*")


def is_model_name(name: str) -> bool:
    """Return whether `name` may be the prefix of a model's C names."""
    return _MODEL_NAME.fullmatch(name) is not None


def identifier(name: str, otherwise: str = "t") -> str:
    """Return a lower-case C identifier that reads like `name`.

    Words keep their order, everything between them becomes one underscore. Of a long name the
    end stays, because the path of an ONNX name runs from the general to the particular.

    Args:
        name: any text.
        otherwise: the identifier if no letter or digit of `name` is left; put before a digit.
    """
    # A border between words: `denseOut` is dense_out; `ReLU`, `conv2D` and `ONNX` stay whole.
    split = re.sub(r"(?<=[a-z]{2})(?=[A-Z][a-z])", "_", name)
    words = re.findall(r"[a-z0-9]+", split.lower().encode("ascii", "replace").decode())
    text = _tail(words)
    if not text:
        return otherwise
    if text[0].isdigit():
        text = f"{otherwise}{text}"
    return f"{text}_" if _is_reserved(text) else text


def _tail(words: list[str]) -> str:
    """Join as many of the last words as fit."""
    kept: list[str] = []
    room = LIMIT
    for word in reversed(words):
        if len(word) > room:
            break
        kept.append(word)
        room -= len(word) + 1
    if not kept and words:
        return words[-1][-LIMIT:]
    return "_".join(reversed(kept))


def _is_reserved(text: str) -> bool:
    # float32_t and the like belong to <stdint.h> and its kin.
    return text in RESERVED or re.fullmatch(r"u?int[a-z0-9_]*_t|float\d+_t", text) is not None


class Names:
    """Identifiers of one C scope. The same names asked for in the same order give the same ones.

    Args:
        taken: identifiers that are in use already.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {word.lower() for word in taken}

    def give(self, name: str, otherwise: str = "t") -> str:
        """Return an identifier that reads like `name` and differs from all others in any case.

        Asked twice for one name, it gives two identifiers.
        """
        return self.claim(identifier(name, otherwise))

    def claim(self, wanted: str) -> str:
        """Return the identifier `wanted`, with a number if it is in use."""
        found, number = wanted, 2
        while found.lower() in self._taken or _is_reserved(found):
            found = f"{wanted.rstrip('_')}_{number}"
            number += 1
        self._taken.add(found.lower())
        return found
