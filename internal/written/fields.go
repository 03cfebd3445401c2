package written

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Fields cuts a line into fields, without the blanks around them. A field in
// double quotes may hold separators, and a quote written twice. Where a blank separates,
// any number of them does.
func Fields(line []byte, separator byte) []string {
	var all []string
	if separator == ' ' {
		line = bytes.TrimRight(line, " \t")
	}
	for {
		line = bytes.TrimLeft(line, " \t")
		var field []byte
		if len(line) > 0 && line[0] == '"' {
			field, line = unquote(line[1:])
		}
		end := bytes.IndexByte(line, separator)
		if end < 0 {
			return append(all, string(append(field, bytes.TrimRight(line, " \t")...)))
		}
		all = append(all, string(append(field, bytes.TrimRight(line[:end], " \t")...)))
		line = line[end+1:]
	}
}

// unquote reads up to the closing quote, or the end of the line.
func unquote(line []byte) (field, rest []byte) {
	field = []byte{}
	for i := 0; i < len(line); i++ {
		if line[i] == '"' {
			if i+1 == len(line) || line[i+1] != '"' {
				return field, line[i+1:]
			}
			i++
		}
		field = append(field, line[i])
	}
	return field, nil
}

// separators are those that a header is looked through for: the one that it has most of counts.
const separators = ",;\t|"

// Separator is the separator that a line has most of outside of quotes.
func Separator(line []byte) byte {
	counts, quoted := make([]int, len(separators)), false
	for _, c := range line {
		if c == '"' {
			quoted = !quoted
		} else if i := strings.IndexByte(separators, c); i >= 0 && !quoted {
			counts[i]++
		}
	}
	return separators[slices.Index(counts, slices.Max(counts))]
}

// IsBlank says of a field that is no number and no date whether it looks as if nothing was known, and not as if it was written in
// another way. Training treats both alike.
func IsBlank(field string) bool {
	return !strings.ContainsFunc(field, func(r rune) bool { return !strings.ContainsRune("-.?", r) }) ||
		slices.Contains(blanks, strings.ToLower(field))
}

var blanks = []string{"na", "n/a", "#n/a", "<na>", "nan", "nat", "nil", "null", "none", "missing", "unknown"}

// Decimal is what stands before the decimals of numbers. "" is a point.
type Decimal string

// Comma is that of German and French files.
const Comma Decimal = ","

// Read takes nothing for a separator of thousands: where a comma stands before decimals, 1.234 is no number.
func (d Decimal) Read(field string) (x float64, ok bool) {
	if d == Comma {
		if strings.Contains(field, ".") {
			return 0, false
		}
		field = strings.Replace(field, ",", ".", 1)
	}
	x, err := Number(field)
	if errors.Is(err, strconv.ErrRange) {
		err = nil // an infinity or a zero, which will do
	}
	return x, err == nil && !math.IsNaN(x)
}
