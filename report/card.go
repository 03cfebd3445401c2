package report

import (
	_ "embed"
	"strings"
	"text/template"

	"github.com/privgrad/privgrad/internal/plan"
)

//go:embed card.md
var cardText string

var card = template.Must(template.New("card").Funcs(template.FuncMap{
	"percent": func(x *float64) string { return percent(*x) },
	"number":  func(x *float64) string { return number(*x) },
	"labeled": plan.Labeled,
	"text":    plain,
	"code":    func(s string) string { return strings.ReplaceAll(oneLine(s), "`", "'") },
}).Parse(cardText))

// plain makes a text of a user's what it is, in Markdown.
func plain(s string) string {
	return strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "|", `\|`, "#", `\#`).Replace(oneLine(s))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
