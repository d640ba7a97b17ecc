#!/usr/bin/env python3
"""Draws a way from form to form as SVG: make_picture.py pipeline.txt > pipeline.svg

Each line of the text is one of these; `#` begins a comment.
  form TITLE | DETAIL | PLACE    a box; a program, or what holds one
  step TITLE | DETAIL            an arrow down to the next line
  side TITLE | DETAIL            a dashed box beside the step above it: what the step answers or asks
  fork TITLE | TITLE | ...       boxes side by side
"""

import html
import sys

WIDTH, LEFT, BOX, FORM_HEIGHT, STEP_HEIGHT = 760, 20, 460, 48, 50
SIDE_LEFT, SIDE = 530, 210
MIDDLE = LEFT + BOX // 2


def text(x, y, words, size=13, anchor="start", weight="normal", colour="#1f2933"):
    return (f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" fill="{colour}">'
            f"{html.escape(words)}</text>")


def box(x, y, width, height, style):
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" {style}/>'


def arrow(x1, y1, x2, y2, style=""):
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#52606d" marker-end="url(#tip)" {style}/>'


def form(y, title, detail, place):
    return [box(LEFT, y, BOX, FORM_HEIGHT, 'fill="#e6f0fa" stroke="#2b6cb0"'),
            text(LEFT + 14, y + 20, title, weight="bold"), text(LEFT + 14, y + 38, detail, 12, colour="#52606d"),
            text(LEFT + BOX - 14, y + 20, place, 12, "end", colour="#2b6cb0")], FORM_HEIGHT


def step(y, title, detail):
    return [arrow(MIDDLE, y + 2, MIDDLE, y + STEP_HEIGHT - 4), text(MIDDLE + 14, y + 22, title, weight="bold"),
            text(MIDDLE + 14, y + 38, detail, 12, colour="#52606d")], STEP_HEIGHT


def side(y, title, detail):
    top = y - STEP_HEIGHT
    return [box(SIDE_LEFT, top + 3, SIDE, 42, 'fill="#fdf3e4" stroke="#b7791f" stroke-dasharray="4 3"'),
            arrow(MIDDLE + 6, top + 6, SIDE_LEFT - 4, top + 6, 'stroke-dasharray="4 3"'),
            text(SIDE_LEFT + 12, top + 20, title, weight="bold"),
            text(SIDE_LEFT + 12, top + 37, detail, 12, colour="#52606d")], 0


def fork(y, *titles):
    gap = 14
    width = (BOX - gap * (len(titles) - 1)) // len(titles)
    drawn = []
    for i, title in enumerate(titles):
        x = LEFT + i * (width + gap)
        drawn += [box(x, y, width, 34, 'fill="#e9f5ec" stroke="#2f855a"'),
                  text(x + width // 2, y + 22, title, anchor="middle", weight="bold")]
    return drawn, 34


def draw(lines):
    drawn, y = [], 12
    kinds = {"form": form, "step": step, "side": side, "fork": fork}
    for line in lines:
        kind, rest = line.split(" ", 1)
        parts, height = kinds[kind](y, *map(str.strip, rest.split("|")))
        drawn += parts
        y += height
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 12}" width="{WIDTH}" '
            f'font-family="Helvetica, Arial, sans-serif">',
            '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            '<path d="M0 0 L8 4 L0 8 z" fill="#52606d"/></marker>',
            f'<rect width="{WIDTH}" height="{y + 12}" fill="#ffffff"/>']
    return "\n".join([*head, *drawn, "</svg>"]) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1]) as source:
        sys.stdout.write(draw([line.strip() for line in source if line.strip() and line[0] != "#"]))
