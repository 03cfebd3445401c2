package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A Section is flags under a title of a command's help.
type Section struct {
	Title string
	Flags []*pflag.Flag
}

// helpWidth is the longest line of a help text, in columns.
const helpWidth = 100

// argument is the annotation of a flag with what stands for its value in help.
const argument = "argument"

// NameArgument says what stands for a flag's value in help, such as FILE.
func NameArgument(f *pflag.Flag, name string) {
	if name != "" {
		f.Annotations = map[string][]string{argument: {name}}
	}
}

// sectioned has a command show its flags in sections.
func sectioned(cmd *cobra.Command, sections func() []Section) {
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		w := cmd.OutOrStdout()
		fmt.Fprintf(w, "Usage: %s\n\nExamples:\n%s\n", cmd.UseLine(), cmd.Example)
		WriteSections(w, sections())
		return nil
	})
}

// WriteSections writes titles with their flags, all in the same columns.
func WriteSections(w io.Writer, sections []Section) {
	column := 0
	for _, s := range sections {
		for _, f := range s.Flags {
			column = max(column, utf8.RuneCountInString(spelled(f)))
		}
	}
	for _, s := range sections {
		fmt.Fprintf(w, "\n%s\n", s.Title)
		for _, f := range s.Flags {
			fmt.Fprintln(w, strings.TrimRight(hang(spelled(f), explained(f), column+2), " "))
		}
	}
}

// spelled is a flag as it is given.
func spelled(f *pflag.Flag) string {
	text := "  --" + f.Name
	if f.Shorthand != "" {
		text = "  -" + f.Shorthand + ", --" + f.Name
	}
	arg := map[string]string{"bool": "", "number": "X", "int": "N", "ints": "LIST"}
	name, known := arg[f.Value.Type()]
	if given := f.Annotations[argument]; len(given) > 0 {
		name = given[0]
	} else if !known {
		name = "NAME"
	}
	return strings.TrimRight(text+" "+name, " ")
}

// explained is what a flag does, with its default.
func explained(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "0", "false":
		return f.Usage
	}
	if strings.Contains(f.Usage, "(default") {
		return f.Usage
	}
	return fmt.Sprintf("%s (default %s)", f.Usage, f.DefValue)
}

// hang writes a text behind a head, from a column on and within the width of help.
func hang(head, text string, column int) string {
	var b strings.Builder
	b.WriteString(head)
	at := utf8.RuneCountInString(head)
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case at < column:
			b.WriteString(strings.Repeat(" ", column-at))
			at = column
		case at+1+n > helpWidth:
			b.WriteString("\n" + strings.Repeat(" ", column))
			at = column
		default:
			b.WriteString(" ")
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}

// A Topic is a page of help that is no command, with flags of other commands.
type Topic struct {
	Name, Short, Text, Example string
	Sections                   []Section
}

// New is the topic for its parent.
func (t Topic) New() *cobra.Command {
	var b strings.Builder
	b.WriteString(t.Text + "\n")
	WriteSections(&b, t.Sections)
	cmd := &cobra.Command{Use: t.Name, Short: t.Short, Long: strings.TrimRight(b.String(), "\n"), Example: t.Example}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n\nExamples:\n%s\n", cmd.Long, cmd.Example)
	})
	return cmd
}
