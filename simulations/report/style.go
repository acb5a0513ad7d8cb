package report

import (
	"image/color"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The colours are those of Okabe and Ito (2008), which people with any kind of
// colour vision tell apart. Regions have them in an order in which neighbours
// also differ in lightness, for grey print.
var (
	regionColors = []color.NRGBA{
		{0x56, 0xB4, 0xE9, 0xFF}, // sky blue
		{0x00, 0x72, 0xB2, 0xFF}, // blue
		{0xE6, 0x9F, 0x00, 0xFF}, // orange
		{0x00, 0x9E, 0x73, 0xFF}, // bluish green
		{0xF0, 0xE4, 0x42, 0xFF}, // yellow
		{0xCC, 0x79, 0xA7, 0xFF}, // reddish purple
	}
	unknownColor   = color.NRGBA{0xD5, 0x5E, 0x00, 0xFF} // vermilion
	availableColor = color.NRGBA{0xE4, 0xE4, 0xE4, 0xFF}
	ink            = color.NRGBA{0x1A, 0x1A, 0x1A, 0xFF}
	faint          = color.NRGBA{0xD8, 0xD8, 0xD8, 0xFF}
	shade          = color.NRGBA{0x00, 0x00, 0x00, 0x1C}
	laneColor      = color.NRGBA{0xC4, 0xC4, 0xC4, 0xFF}
	paper          = color.NRGBA{0xFF, 0xFF, 0xFF, 0xFF}
)

// regionColor of the region with an index: the same in all plots. After a round
// of the colours come paler ones.
func regionColor(i int) color.Color {
	c := regionColors[i%len(regionColors)]
	for range min(i/len(regionColors), 3) {
		c.R, c.G, c.B = paler(c.R), paler(c.G), paler(c.B)
	}
	return c
}

func paler(part uint8) uint8 { return 255 - (255-part)/2 }

// Sizes of text.
const (
	titleSize vg.Length = 10.5
	labelSize vg.Length = 9
)

// textStyle is a style of the one font, whose widths most systems' sans-serif
// fonts have as well.
func textStyle(size vg.Length, x text.XAlignment, y text.YAlignment) draw.TextStyle {
	return draw.TextStyle{
		Color:   ink,
		Font:    font.Font{Typeface: "Liberation", Variant: "Sans", Size: size},
		XAlign:  x,
		YAlign:  y,
		Handler: text.Plain{Fonts: font.DefaultCache},
	}
}
