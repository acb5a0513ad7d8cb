package report

import (
	"bytes"
	"fmt"
	"html"
	"strings"

	"gonum.org/v1/plot/vg/vgsvg"
)

// fontFamily are fonts whose letters are as wide as those that the layout was
// made with, and then whatever there is without serifs.
const fontFamily = `Liberation Sans, Arimo, Arial, Helvetica, sans-serif`

// fontStyle is what the library says of each text. It names one font that few
// have, so the whole drawing says it instead, with fonts to fall back on.
const fontStyle = "font-family:Liberation Sans;font-variant:normal;font-weight:normal;font-style:normal;"

// embedded is a drawing as an element of a page, told in words to those who
// cannot see it. It scales to the width that it is given.
func embedded(canvas *vgsvg.Canvas, description string) string {
	var b bytes.Buffer
	_, _ = canvas.WriteTo(&b)                        // a buffer takes everything
	_, drawing, _ := strings.Cut(b.String(), "<svg") // a prologue comes before
	_, body, _ := strings.Cut(drawing, ">")
	body = strings.ReplaceAll(body, fontStyle, "")
	width, height := canvas.Size()
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="%s" viewBox="0 0 %.5g %.5g" font-family="%s">`,
		html.EscapeString(description), width.Points(), height.Points(), fontFamily) + body
}
