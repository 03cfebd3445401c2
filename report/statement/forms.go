package statement

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// title is the statement's heading.
func (s *Statement) title() string { return "Privacy statement of the run " + s.Run }

// columns are those of the text.
const columns = 100

// Text writes the statement for a terminal or a letter.
func (s *Statement) Text(w io.Writer) error {
	var b strings.Builder
	wrap(&b, "", "", s.title())
	for i, section := range s.Sections {
		fmt.Fprintf(&b, "\n%d. %s\n\n", i+1, section.Title)
		wrap(&b, "   ", "   ", strings.Join(section.Sentences, " "))
		for _, item := range section.List {
			wrap(&b, "   - ", "     ", item)
		}
		width := 0
		for _, f := range section.Facts {
			width = max(width, len(f.Name))
		}
		for _, f := range section.Facts {
			fmt.Fprintf(&b, "   %-*s  %s\n", width, f.Name, strings.Join(strings.Fields(f.Value), " "))
		}
	}
	_, err := io.WriteString(w, strings.Map(shown, b.String()))
	return err
}

// shown keeps from a terminal what would steer it, should a name hold that.
func shown(r rune) rune {
	if unicode.IsControl(r) && r != '\n' {
		return unicode.ReplacementChar
	}
	return r
}

// wrap writes words into lines.
func wrap(b *strings.Builder, first, others, text string) {
	line := first
	empty := true
	for word := range strings.FieldsSeq(text) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns {
			b.WriteString(line + "\n")
			line, empty = others, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	if !empty {
		b.WriteString(line + "\n")
	}
}

//go:embed page.html
var pageText string

var page = template.Must(template.New("statement").Funcs(template.FuncMap{"code": code}).Parse(pageText))

// HTML writes the statement as a page that loads nothing.
func (s *Statement) HTML(w io.Writer) error {
	return page.Execute(w, struct {
		*Statement
		Title string
	}{s, s.title()})
}

// code sets what stands between backticks as code.
func code(text string) template.HTML {
	var b strings.Builder
	for i, part := range strings.Split(text, "`") {
		switch part = template.HTMLEscapeString(part); i % 2 {
		case 1:
			b.WriteString("<code>" + part + "</code>")
		default:
			b.WriteString(part)
		}
	}
	return template.HTML(b.String())
}
