package tabular

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/privgrad/privgrad/datasets"
)

// longestHeader is how many bytes of a file may come before the end of its header.
const longestHeader = 1 << 20

// separators are those that a header is looked through for: the one that it has most of counts.
const separators = ",;\t|"

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

// firstLine reads no further than one buffer behind a table's first line.
func firstLine(path string) ([]byte, error) {
	f, err := datasets.OpenFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missing(path)
	}
	if err != nil {
		return nil, fmt.Errorf("table %s cannot be read: %w", path, err)
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, longestHeader)).ReadBytes('\n')
	switch {
	case err != nil && err != io.EOF:
		return nil, fmt.Errorf("table %s cannot be read: %w", path, err)
	case err != nil && len(line) == longestHeader:
		return nil, fmt.Errorf("table %s has no end of a line within %d bytes: give a text file", path, longestHeader)
	}
	return line, nil
}

func skeleton(line []byte, label string) (string, error) {
	if isUTF16(line) {
		return "", errUTF16
	}
	header := lines(line)
	if len(header) == 0 || len(bytes.TrimSpace(header[0])) == 0 {
		return "", errors.New("its first line is empty: begin the file with the names of the columns, or write a schema with header: none")
	}
	separator := separators[0]
	for _, c := range []byte(separators) {
		if bytes.Count(header[0], []byte{c}) > bytes.Count(header[0], []byte{separator}) {
			separator = c
		}
	}
	names := split(header[0], separator)
	if err := checkNames(names); err != nil {
		return "", err
	}
	if label != "" && !slices.Contains(names, label) {
		return "", fmt.Errorf("its first line names no column %q: give the label's name as it stands there, or write a schema with header: none if that line is a record", label)
	}
	var b strings.Builder
	b.WriteString("# Fill in what you know about the data. Take nothing from the records: a schema is public.\n")
	b.WriteString("# A column is a number with bounds, or has categories, or is not used (ignore: true).\n")
	if separator != separators[0] {
		fmt.Fprintf(&b, "separator: %q\n", string(separator))
	}
	b.WriteString("columns:\n")
	for _, name := range names {
		if name != label {
			fmt.Fprintf(&b, "  - {name: %s, bounds: [LOW, HIGH]}   # or categories: [A, B], or ignore: true\n", scalar(name))
		}
	}
	if label == "" {
		label = "LABEL"
	}
	fmt.Fprintf(&b, "label: {column: %s, classes: [CLASS, CLASS]}   # or bounds: [LOW, HIGH] for a regression\n", scalar(label))
	return b.String(), nil
}

// checkNames says why the fields of a line are no names of columns. It repeats none of them: they may be a record's.
func checkNames(names []string) error {
	const instead = "write a schema with header: none, which lists all columns in order, or begin the file with a line of names"
	for i, name := range names {
		_, err := strconv.ParseFloat(name, 64)
		switch {
		case name == "":
			return fmt.Errorf("field %d of its first line is empty, so that this seems to be no header: %s", i+1, instead)
		case err == nil:
			return fmt.Errorf("field %d of its first line is a number, so that this seems to be a record: %s", i+1, instead)
		case slices.Contains(names[:i], name):
			return fmt.Errorf("field %d of its first line stands there twice, so that this seems to be no header: %s", i+1, instead)
		}
	}
	return nil
}

var (
	plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)
	ambiguous = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"}
)

// scalar is a name in YAML, in quotes where it might be read as something else.
func scalar(name string) string {
	if plainName.MatchString(name) && !slices.Contains(ambiguous, strings.ToLower(name)) {
		return name
	}
	return strconv.Quote(name)
}
