"""The golden file is what the second implementation gives, and says what the published examples say."""

import pathlib
import struct
import sys
import unittest

import golden

# Scale and codes of one block of eight numbers, known from elsewhere.
BLOCK = [1, -0.5, 0.3, 0.01, -2, 1.99, 0, 3.7]
KNOWN = {
    "i8 per 256 scale f32 fit": ("0x1.dd5442p-6", [34, -17, 10, 0, -69, 68, 0, 127]),
    "i8 per 256 scale f32 full": ("0x1.d9999ap-6", [35, -17, 10, 0, -69, 69, 0, 127]),
    "i4 per 32 scale bf16 fit": ("0x1.0ep-1", [2, -1, 1, 0, -4, 4, 0, 7]),
    "i4 per 32 scale f16 signed": ("-0x1.d98p-2", [-2, 1, -1, 0, 4, -4, 0, -8]),
    "i6 per 32 scale f16 fit": ("0x1.e9p-4", [8, -4, 3, 0, -17, 17, 0, 31]),
    "e4m3 per 128 scale f32 fit": ("0x1.0ea0eap-7", [120, -60, 36, 1.25, -240, 240, 0, 448]),
    "e4m3 per 32 scale e8m0 power": ("0x1p-7", [128, -64, 40, 1.25, -256, 256, 0, 448]),
    "e2m3 per 32 scale e8m0 power": ("0x1p-1", [2, -1, 0.625, 0, -4, 4, 0, 7.5]),
    "e2m1 per 32 scale e8m0 power": ("0x1p-1", [2, -1, 0.5, 0, -4, 4, 0, 6]),
}


class Golden(unittest.TestCase):
    def test_the_file_is_up_to_date(self):
        written = pathlib.Path(__file__).with_name("golden.txt").read_text()
        self.assertEqual(written, "\n".join(golden.golden_lines()) + "\n")

    def test_known_blocks(self):
        values = [golden.f32(x) for x in BLOCK]
        for text, (scale, codes) in KNOWN.items():
            with self.subTest(codec=text):
                codec = golden.Codec(text)
                data = golden.encode(codec, values)
                self.assertEqual(golden.block_scale(codec, values, 1.0)[1], float.fromhex(scale))
                size = golden.round16((len(values) * codec.width + 7) // 8)
                unpacked = golden.unpack(data[:size], codec.width, len(values))
                self.assertEqual([codec.value(code) for code in unpacked], codes)

    def test_known_nvfp4(self):
        codec, values = golden.Codec("e2m1 per 16 scale e4m3 fit"), [golden.f32(x) for x in BLOCK]
        data = golden.encode(codec, values)
        self.assertEqual(struct.unpack("<f", data[-16:-12])[0], golden.f32(golden.f32(3.7) / 2688))
        self.assertEqual(golden.FLOATS["e4m3"].values[data[16]], 448)
        self.assertEqual([codec.value(code) for code in golden.unpack(data[:16], 4, 8)],
                         [1.5, -1, 0.5, 0, -3, 3, 0, 6])


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
