"""The arithmetic of codecs, a second time: plain Python, written from codec/README.md alone.

Floats are exact here because Python computes in binary64: a product, quotient or sum of two f32 that is rounded to
binary64 and then to f32 is the f32 result. `python3 golden.py` prints the golden file.
"""

import math
import struct
import zlib

GRANULE = 1024
F32_MAX = struct.unpack("<f", bytes.fromhex("ffff7f7f"))[0]
TINY = 2.0**-126


def f32(value):
    """The nearest f32, ties to even."""
    if math.isnan(value) or math.isinf(value):
        return value
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def bits_of(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


class Float:
    """All codes of a small float in increasing order of their values; rounding is a search in that list."""

    def __init__(self, exponent_bits, mantissa_bits, bias, largest_code):
        self.largest_code = largest_code
        self.sign_bit = 1 << (exponent_bits + mantissa_bits)
        hidden = 1 << mantissa_bits
        self.values = []
        for code in range(largest_code + 1):
            exponent, mantissa = divmod(code, hidden)
            steps = mantissa + (hidden if exponent > 0 else 0)
            self.values.append(steps * 2.0 ** (max(exponent, 1) - bias - mantissa_bits))

    def code(self, magnitude):
        """Nearest, ties to the even code, the largest at most."""
        low, high = 0, self.largest_code
        if magnitude >= self.values[high]:
            return high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.values[middle] <= magnitude else (low, middle)
        below, above = magnitude - self.values[low], self.values[high] - magnitude
        return low if below < above or (below == above and low % 2 == 0) else high

    def overflows(self, magnitude):
        """Whether it is nearer to what the next code would be."""
        limit = self.values[-1] + (self.values[-1] - self.values[-2]) / 2
        return magnitude > limit or (magnitude == limit and self.largest_code % 2 == 1)


FLOATS = {"e4m3": Float(4, 3, 7, 0x7E), "e5m2": Float(5, 2, 15, 0x7B), "e3m2": Float(3, 2, 3, 31),
          "e2m3": Float(2, 3, 1, 31), "e2m1": Float(2, 1, 1, 7), "f16": Float(5, 10, 15, 0x7BFF),
          "bf16": Float(8, 7, 127, 0x7F7F)}
WIDTHS = {"f32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "e3m2": 6, "e2m3": 6, "e2m1": 4,
          "i8": 8, "i6": 6, "i4": 4, "sign": 1, "levels": 4}
SCALE_BYTES = {"f32": 4, "f16": 2, "bf16": 2, "e4m3": 1, "e8m0": 1}
SCALE_NAN = {"f32": 0x7FC00000, "f16": 0x7E00, "bf16": 0x7FC0, "e4m3": 0x7F, "e8m0": 0xFF}


class Codec:
    """From its text, as `kolo::codec::textOf` writes it."""

    def __init__(self, text):
        self.text, self.levels, self.block, self.scale, self.rule = text, [], 0, None, "fit"
        self.stochastic = text.endswith(" stochastic")
        text = text.removesuffix(" stochastic")
        if text.startswith("levels"):
            self.levels = [f32(float(level)) for level in text[text.index("[") + 1:text.index("]")].split(",")]
            text = "levels" + text[text.index("]") + 1:]
        words = text.split()
        self.element = words[0]
        if len(words) > 1:
            self.block, self.scale, self.rule = int(words[2]), words[4], words[5]
        self.width = WIDTHS[self.element]

    def largest(self):
        if self.levels:
            return max(-self.levels[0], self.levels[-1])
        if self.element in FLOATS:
            return FLOATS[self.element].values[-1]
        return 1.0 if self.element == "sign" else float((1 << (self.width - 1)) - 1)

    def value(self, code):
        if self.element == "f32":
            return struct.unpack("<f", struct.pack("<I", code))[0]
        if self.element == "sign":
            return -1.0 if code else 1.0
        if self.levels:
            return self.levels[min(code, len(self.levels) - 1)]
        if self.element in FLOATS:
            form = FLOATS[self.element]
            magnitude = code % form.sign_bit
            if magnitude > form.largest_code:
                is_infinite = self.element != "e4m3" and magnitude == form.largest_code + 1
                value = math.inf if is_infinite else math.nan
            else:
                value = form.values[magnitude]
            return -value if code >= form.sign_bit else value
        integer = code - (1 << self.width) if code >> (self.width - 1) else code
        return integer / 64 if self.rule == "power" else float(integer)

    def code(self, scaled, draw):
        """Of a number that was divided by its scale."""
        if self.element == "sign":
            return int(scaled < 0)
        if self.levels:
            return self.level_code(scaled, draw)
        if self.element in FLOATS:
            code = self.float_code(scaled, draw)
            return 0 if code == FLOATS[self.element].sign_bit else code
        steps = scaled * 64 if self.rule == "power" else scaled
        half = 1 << (self.width - 1)
        integer = round(steps) if draw is None else math.floor(f32(steps + draw))
        lowest = -half if self.rule in ("full", "signed") else 1 - half
        return min(max(integer, lowest), half - 1) % (1 << self.width)

    def float_code(self, value, draw):
        form = FLOATS[self.element]
        sign = form.sign_bit if math.copysign(1, value) < 0 else 0
        magnitude = abs(value)
        if draw is not None:
            low = form.code(magnitude)
            low -= form.values[low] > magnitude
            top = form.largest_code
            gap = form.values[low + 1] - form.values[low] if low < top else form.values[top] - form.values[top - 1]
            # In steps of the binade that the number is in; `steps` has the sign. The caller looks at overflow.
            steps = math.copysign(magnitude / gap, value)
            up = abs(math.floor(f32(steps + draw))) * gap > form.values[low]
            return sign + min(low + int(up), form.largest_code)
        return sign + form.code(magnitude)

    def level_code(self, scaled, draw):
        if scaled < self.levels[0]:
            return 0
        below = max(i for i, level in enumerate(self.levels) if level <= scaled)
        if below == len(self.levels) - 1:
            return below
        low, high = self.levels[below], self.levels[below + 1]
        if draw is not None:
            return below + int(f32(f32(f32(scaled - low) / f32(high - low)) + draw) >= 1)
        up, down = high - scaled, scaled - low
        return below + int(up < down or (up == down and below % 2 == 1))

    def cast(self, value, draw):
        if self.element == "f32":
            return bits_of(value)
        form = FLOATS[self.element]
        if math.isnan(value):
            return {"f16": 0x7E00, "bf16": 0x7FC0, "e4m3": 0x7F, "e5m2": 0x7E}[self.element]
        sign = form.sign_bit if math.copysign(1, value) < 0 else 0
        if math.isinf(value):
            return 0x7F if self.element == "e4m3" else sign + form.largest_code + 1
        gap = form.values[-1] - form.values[-2]
        if draw is None:
            overflows = form.overflows(abs(value))
        else:
            overflows = abs(math.floor(f32(value / gap + draw))) * gap > form.values[-1]
        if overflows:
            return 0x7F if self.element == "e4m3" else sign + form.largest_code + 1
        return self.float_code(value, draw)

    def bytes(self, elements):
        whole, rest = divmod(elements, GRANULE)
        return whole * self.granule_bytes(GRANULE) + (self.granule_bytes(rest) if rest else 0)

    def granule_bytes(self, elements):
        total = round16(math.ceil(elements * self.width / 8))
        if self.block:
            total += round16(math.ceil(elements / self.block) * SCALE_BYTES[self.scale])
        return total + (16 if self.scale == "e4m3" else 0)


def round16(number):
    return (number + 15) // 16 * 16


def draw_of(call, rank, element):
    def mix(x):
        x = ((x ^ (x >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
        x = ((x ^ (x >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
        return x ^ (x >> 16)
    state = mix((call & 0xFFFFFFFF) ^ 0x9E3779B9)
    for word in (call >> 32, rank, element >> 32, element & 0xFFFFFFFF):
        state = mix(state ^ word)
    return (state >> 8) * 2.0**-24


def narrow_scale(kind, scale):
    """The bits of a scale and what they stand for, but for e8m0; an e4m3 scale is in units of the granule's. Beyond the
    largest number of its type: NaN, which stands for 0 where it encodes."""
    if abs(scale) > F32_MAX or (kind != "f32" and FLOATS[kind].overflows(abs(scale))):
        return SCALE_NAN[kind], 0.0
    if kind == "f32":
        return bits_of(scale), scale
    form = FLOATS[kind]
    code = form.code(abs(scale))
    return code + (form.sign_bit if scale < 0 else 0), math.copysign(form.values[code], scale)


def mean(block, size):
    sums = [abs(x) for x in block] + [0.0] * (size - len(block))
    while len(sums) > 1:
        half = len(sums) // 2
        sums = [f32(sums[j] + sums[j + half]) for j in range(half)]
    return f32(sums[0] / len(block))


def exact_scale(codec, block, largest):
    half = 1 << (codec.width - 1)
    if codec.rule == "full":
        return f32(largest / half)
    if codec.rule == "signed":
        return f32(-next(x for x in block if abs(x) == largest) / half)
    if codec.rule == "mean":
        return mean(block, codec.block)
    return f32(largest / codec.largest())


def block_scale(codec, block, unit):
    """The bits of the scale and its value; value 0: all codes are those of zero."""
    if any(math.isnan(x) or math.isinf(x) for x in block):
        return SCALE_NAN[codec.scale], 0.0
    largest = max(abs(x) for x in block)
    if largest == 0 or (codec.scale == "e4m3" and unit == 0):
        return 0, 0.0
    if codec.rule == "power":
        top = 0 if codec.element == "i8" else math.frexp(codec.largest())[1] - 1
        exponent = math.frexp(largest)[1] - 1 - top
        return (exponent + 127, 2.0**exponent) if exponent >= -126 else (0, 0.0)
    scale = exact_scale(codec, block, largest)
    if codec.scale == "e4m3":
        scale = f32(scale / unit)
    bits, value = narrow_scale(codec.scale, scale)
    value = f32(value * unit)
    return (bits, value) if abs(value) >= TINY or bits == SCALE_NAN[codec.scale] else (0, 0.0)


def granule_scale(codec, values):
    blocks = [values[i:i + codec.block] for i in range(0, len(values), codec.block)]
    finite = [abs(x) for block in blocks if all(math.isfinite(x) for x in block) for x in block]
    unit = f32(max(finite, default=0.0) / f32(448 * codec.largest()))
    return unit if unit >= TINY else 0.0


def pack(codes, width):
    """Codes in element order; 6 bits as a plane of the low 4 and a plane of the high 2."""
    if width == 6:
        number = sum((code & 15) << (4 * i) for i, code in enumerate(codes))
        number |= sum((code >> 4) << (4 * len(codes) + 2 * i) for i, code in enumerate(codes))
    else:
        number = sum(code << (width * i) for i, code in enumerate(codes))
    return number.to_bytes(round16(math.ceil(len(codes) * width / 8)), "little")


def unpack(data, width, count):
    number = int.from_bytes(data, "little")
    if width == 6:
        return [(number >> (4 * i)) & 15 | ((number >> (4 * count + 2 * i)) & 3) << 4 for i in range(count)]
    return [(number >> (width * i)) & ((1 << width) - 1) for i in range(count)]


def encode_granule(codec, values, call, rank, first):
    draws = [draw_of(call, rank, first + i) if codec.stochastic else None for i in range(len(values))]
    if not codec.block:
        return pack([codec.cast(x, draw) for x, draw in zip(values, draws)], codec.width)
    unit = granule_scale(codec, values) if codec.scale == "e4m3" else 1.0
    zero = codec.levels.index(0.0) if codec.levels else 0
    codes, scales = [], b""
    for begin in range(0, len(values), codec.block):
        block = values[begin:begin + codec.block]
        bits, scale = block_scale(codec, block, unit)
        scales += bits.to_bytes(SCALE_BYTES[codec.scale], "little")
        reciprocal = f32(1 / scale) if scale else 0.0
        codes += [codec.code(f32(x * reciprocal), draws[begin + i]) if scale else zero for i, x in enumerate(block)]
    scales += bytes(round16(len(scales)) - len(scales))
    if codec.scale == "e4m3":
        scales += struct.pack("<f", unit) + bytes(12)
    return pack(codes, codec.width) + scales


def encode(codec, values, call=0, rank=0, first=0):
    return b"".join(encode_granule(codec, values[i:i + GRANULE], call, rank, first + i)
                    for i in range(0, len(values), GRANULE))


def scale_value(codec, bits, unit):
    if bits == SCALE_NAN[codec.scale]:
        return math.nan
    if codec.scale == "f32":
        return struct.unpack("<f", struct.pack("<I", bits))[0]
    if codec.scale == "e8m0":
        return 2.0 ** (bits - 127)
    form = FLOATS[codec.scale]
    value = form.values[bits % form.sign_bit]
    return f32((-value if bits >= form.sign_bit else value) * unit)


def decode_granule(codec, data, count):
    size = round16(math.ceil(count * codec.width / 8))
    values = [codec.value(code) for code in unpack(data[:size], codec.width, count)]
    if not codec.block:
        return values
    unit = struct.unpack("<f", data[-16:-12])[0] if codec.scale == "e4m3" else 1.0
    width = SCALE_BYTES[codec.scale]
    scales = [scale_value(codec, int.from_bytes(data[size + width * i:size + width * (i + 1)], "little"), unit)
              for i in range(math.ceil(count / codec.block))]
    return [f32(value * scales[i // codec.block]) for i, value in enumerate(values)]


def decode(codec, data, count):
    values, at = [], 0
    while count > 0:
        size = min(count, GRANULE)
        values += decode_granule(codec, data[at:at + codec.granule_bytes(size)], size)
        at, count = at + codec.granule_bytes(size), count - size
    return values


NF4 = ("levels [-1, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.091050036, 0, 0.0795803, "
       "0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1] per 64 scale bf16 fit")
CODECS = ["f32", "f16", "bf16", "e4m3", "e5m2", "f16 stochastic", "bf16 stochastic", "e4m3 stochastic",
          "e4m3 per 128 scale f32 fit", "e4m3 per 16 scale bf16 fit", "e5m2 per 128 scale f32 fit",
          "e4m3 per 32 scale e8m0 power", "e5m2 per 32 scale e8m0 power", "e2m3 per 32 scale e8m0 power",
          "e3m2 per 32 scale e8m0 power", "e2m1 per 32 scale e8m0 power", "i8 per 32 scale e8m0 power",
          "e2m1 per 16 scale e4m3 fit", "i8 per 64 scale e4m3 fit", "e2m1 per 32 scale f16 fit",
          "e3m2 per 64 scale f16 fit", "e2m3 per 1024 scale f32 fit", "i8 per 256 scale f32 fit",
          "i8 per 256 scale f32 full", "i8 per 1024 scale bf16 fit", "i6 per 32 scale f16 fit",
          "i6 per 32 scale f16 signed", "i4 per 256 scale f32 full", "i4 per 32 scale bf16 fit",
          "i8 per 32 scale f16 signed", "i4 per 32 scale f16 signed", "i8 per 256 scale f32 fit stochastic",
          "i4 per 32 scale f16 signed stochastic", "e2m1 per 32 scale e8m0 power stochastic",
          "sign per 1024 scale f32 mean", "sign per 32 scale bf16 mean", NF4, NF4 + " stochastic"]


def wide_number(seed):
    """A reproducible f32 of either sign whose magnitude varies by many powers of two, or 0."""
    bits = (seed * 0x9E3779B97F4A7C15 + 0x1234567) & ((1 << 64) - 1)
    bits ^= bits >> 29
    mantissa, exponent = (bits >> 8) & 0xFFFFF, (bits >> 32) % 24
    return f32((mantissa - 0x80000) * 2.0 ** (-19 - exponent + (seed // 100) % 7 * 3))


def inputs():
    short = [1, -0.5, 0.3, 0.01, -2, 1.99, 0, 3.7]
    special = [0.0] * 32 + [1.0, math.nan] + [0.25] * 30 + [math.inf, -3.0] + [2.0] * 30 + [-0.0, 1e-40, -1e-38] + \
        [1e-37] * 29 + [F32_MAX, -F32_MAX, 65504, 65520, 1e9] + [7.0] * 27 + [2.0**-24, -(2.0**-25), 1.5 * 2.0**-24]
    return {"golden": [f32(x) for x in short], "special": [f32(x) for x in special],
            "one": [f32(-0.7)], "odd": [wide_number(i) for i in range(31)],
            "long": [wide_number(i) for i in range(2 * GRANULE + 77)]}


def golden_lines():
    lines = []
    for name, values in inputs().items():
        lines.append(f"input {name} " + "".join(struct.pack("<f", x).hex() for x in values))
    for text in CODECS:
        codec = Codec(text)
        for name, values in inputs().items():
            data = encode(codec, values, call=5, rank=3, first=7 * GRANULE)
            back = b"".join(struct.pack("<f", x) if x == x else bytes.fromhex("0000c07f")
                            for x in decode(codec, data, len(values)))
            shown = data.hex() if len(data) <= 64 else "-"
            lines.append(f"codec {name} {len(data)} {zlib.crc32(data):08x} {zlib.crc32(back):08x} {shown} {text}")
    return lines


if __name__ == "__main__":
    print("\n".join(golden_lines()))
