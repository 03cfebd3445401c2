package tabular

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/written"
)

// longestHeader is how many bytes of a file may come before the end of its header.
const longestHeader = 1 << 20

// Skeleton is a schema's beginning for a table: the column names of its first line, and placeholders for the bounds,
// categories and classes, which only people know. Nothing but that line is read. A line that
// looks like a record is refused, and none of its fields is in the error. label is the
// name of the column to predict; empty: a placeholder.
func Skeleton(path, label string) (string, error) {
	line, err := firstLine(path)
	if err != nil {
		return "", err
	}
	text, err := skeleton(line, label)
	if err != nil {
		return "", fmt.Errorf("table %s: %w", path, err)
	}
	return text, nil
}

// howToFillIn begins a schema. What it shows are no placeholders.
const howToFillIn = `# Fill in what you know about the data. Take nothing from the records: a schema is public.
# A column is one of these:
#   {name: age, bounds: [0, 120], missing: 48}    a number; one that is missing counts as 48, or without the key as 0
#   {name: visit, kind: date, format: DD.MM.YYYY, bounds: [2019-01-01, 2022-12-31]}    a date, with how the file writes it
#   {name: ward, categories: [north, south]}      one of some categories
#   {name: patient, ignore: true}                 not used
# If the file writes 3,14 and not 3.14, add the line decimal: ","
`

// firstLine reads no further than one buffer behind a table's first line.
func firstLine(path string) ([]byte, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, longestHeader)).ReadBytes('\n')
	switch {
	case err != nil && err != io.EOF:
		return nil, unread(path, err)
	case err != nil && len(line) == longestHeader:
		return nil, fmt.Errorf("table %s has no end of a line within %d bytes: give a text file", path, longestHeader)
	}
	return line, datasets.CheckBytes(path, line)
}

func skeleton(line []byte, label string) (string, error) {
	if err := written.CheckUTF8(line); err != nil {
		return "", err
	}
	header := lines(line)
	if len(header) == 0 || len(bytes.TrimSpace(header[0])) == 0 {
		return "", errors.New("its first line is empty: begin the file with the names of the columns, or write a schema with header: none")
	}
	separator := written.Separator(header[0])
	names := written.Fields(header[0], separator)
	if err := checkNames(names); err != nil {
		return "", err
	}
	if label != "" && !slices.Contains(names, label) {
		return "", fmt.Errorf("its first line names no column %q: give the label's name as it stands there, or write a schema with header: none if that line is a record", label)
	}
	var b strings.Builder
	b.WriteString(howToFillIn)
	if separator != ',' {
		fmt.Fprintf(&b, "separator: %q\n", string(separator))
	}
	b.WriteString("columns:\n")
	for i, name := range names {
		switch name {
		case "":
			fmt.Fprintf(&b, "  # column %d has no name, and is not used\n", i+1)
		case label:
		default:
			fmt.Fprintf(&b, "  - {name: %s, bounds: [%s, %s]}\n", written.Scalar(name), low, high)
		}
	}
	if label == "" {
		label = labelColumn
	}
	fmt.Fprintf(&b, "label: {column: %s, classes: []}   # list all classes; for a regression, write bounds: [%s, %s] instead\n", written.Scalar(label), low, high)
	return b.String(), nil
}

// checkNames says why the fields of a line are no names of columns. It repeats none of them: they may be a record's.
func checkNames(names []string) error {
	const instead = "if it is a name, rename the column or write the schema by hand; if the line is a record, write a schema with header: none"
	unnamed := slices.IndexFunc(names, func(name string) bool { return name != "" }) // in front, as of an index that pandas writes
	switch {
	case unnamed < 0:
		return errors.New("all fields of its first line are empty: begin the file with the names of the columns, or write a schema with header: none")
	case len(names) < 2:
		return errors.New("its first line has one field only: separate names by commas, semicolons, tabs or bars, or write a schema by hand, with another separator")
	}
	for i, name := range names[unnamed:] {
		i += unnamed
		switch {
		case name == "":
			return fmt.Errorf("field %d of its first line is empty: name the column; if the line is a record, write a schema with header: none", i+1)
		case !utf8.ValidString(name):
			return fmt.Errorf("field %d of its first line is no UTF-8: save the file in UTF-8", i+1)
		case strings.ContainsFunc(name, unicode.IsControl):
			return fmt.Errorf("field %d of its first line has a control character: save the file as text whose lines end in newlines", i+1)
		case written.IsValue(name):
			return fmt.Errorf("field %d of its first line looks like a value and not like a name: %s", i+1, instead)
		case slices.Contains(names[:i], name):
			return fmt.Errorf("field %d of its first line stands there twice: %s", i+1, instead)
		}
	}
	return nil
}
