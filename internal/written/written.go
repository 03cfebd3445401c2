// Package written reads what people write, on a command line and in files: each kind in one way,
// whichever command or file it is for.
package written

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrDigits says that a number is written as programmers do, such as 0x10 or 1_000.
var ErrDigits = errors.New("not a number in decimal digits, such as 10")

// Whole reads a whole number: 010 is ten. Errors are ErrDigits, or those of strconv.Atoi.
func Whole(text string) (int, error) {
	n, err := strconv.Atoi(text)
	return n, decimal(text, err)
}

// Natural reads a whole number that is not negative. Errors are ErrDigits, or those of strconv.ParseUint.
func Natural(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	return n, decimal(text, err)
}

// Number reads a number, also inf and nan, which have names and no digits. Errors are ErrDigits, or those of
// strconv.ParseFloat.
func Number(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err == nil && strings.ContainsAny(text, "xX_") {
		err = ErrDigits
	}
	return x, decimal(text, err)
}

// decimal says of an error what it is about where a text is a number in other digits.
func decimal(text string, err error) error {
	if !errors.Is(err, strconv.ErrSyntax) || !strings.ContainsAny(text, "xXoObB_") {
		return err
	}
	if _, other := strconv.ParseInt(text, 0, 64); other == nil || errors.Is(other, strconv.ErrRange) {
		return ErrDigits
	}
	if _, other := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64); other == nil {
		return ErrDigits
	}
	return err
}

// List reads a list: items with commas between them, and blanks around them that are no part of them.
func List(text string) ([]string, error) {
	all := strings.Split(text, ",")
	for i, item := range all {
		all[i] = strings.TrimSpace(item)
		switch item = all[i]; {
		case item == "":
			return nil, fmt.Errorf("item %d of the list is empty: write a list such as a,b, with no spaces after commas or in quotation marks as a whole", i+1)
		case item[0] == '"' || item[0] == '\'':
			return nil, fmt.Errorf("item %d of the list begins with a quotation mark: write a list such as a,b, with no quotation marks within", i+1)
		}
	}
	return all, nil
}

// Names is List for items that are different.
func Names(text string) ([]string, error) {
	all, err := List(text)
	for i, name := range all {
		if slices.Contains(all[:i], name) {
			return nil, fmt.Errorf("the list has %q twice: name it once", name)
		}
	}
	return all, err
}

// Wholes reads a list of whole numbers.
func Wholes(text string) ([]int, error) {
	items, err := List(text)
	all := make([]int, len(items))
	for i, item := range items {
		if all[i], err = Whole(item); err != nil {
			return nil, err
		}
	}
	return all, err
}

// The marks with which editors begin a file.
var (
	mark   = []byte("\xef\xbb\xbf") // of UTF-8
	others = []struct {
		name string
		mark []byte
	}{
		{"UTF-32", []byte("\xff\xfe\x00\x00")}, {"UTF-32", []byte("\x00\x00\xfe\xff")},
		{"UTF-16", []byte("\xff\xfe")}, {"UTF-16", []byte("\xfe\xff")},
	}
)

// Unmarked is a text, or a line of one, without the byte order mark in front, which is no part of it.
func Unmarked(text []byte) []byte { return bytes.TrimPrefix(text, mark) }

// CheckUTF8 refuses a text whose byte order mark says that it is no UTF-8.
func CheckUTF8(text []byte) error {
	for _, o := range others {
		if bytes.HasPrefix(text, o.mark) {
			return fmt.Errorf("it is text in %s: save it in UTF-8", o.name)
		}
	}
	return nil
}

// Text is a file's text without its byte order mark. Text that is no UTF-8 is refused, where its beginning shows it.
func Text(file []byte) ([]byte, error) {
	if err := CheckUTF8(file); err != nil {
		return nil, err
	}
	text := Unmarked(file)
	if bytes.IndexByte(text, 0) >= 0 {
		return nil, errors.New("it has zero bytes, as text in UTF-16 and files that are no text do: save it as text in UTF-8")
	}
	return text, nil
}

// Path is the path that a text names, without .. behind a name: the one that the system finds, which goes through a
// link before it goes up. A folder that is missing leads nowhere, so missing/.. is where it would be.
func Path(text string) string {
	if text == "" {
		return ""
	}
	separator := func(r rune) bool { return r < utf8.RuneSelf && os.IsPathSeparator(uint8(r)) }
	at := filepath.VolumeName(text)
	text = text[len(at):]
	if text != "" && os.IsPathSeparator(text[0]) {
		at += string(filepath.Separator)
	}
	for name := range strings.FieldsFuncSeq(text, separator) {
		if name == ".." {
			at = up(at)
		} else {
			at = filepath.Join(at, name)
		}
	}
	return filepath.Clean(at)
}

// up is the folder of what a path, without .. behind a name, leads to.
func up(at string) string {
	if info, err := os.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if target, err := filepath.EvalSymlinks(at); err == nil {
			at = target
		}
	}
	if base := filepath.Base(at); base == "." || base == ".." {
		return filepath.Join(at, "..")
	}
	return filepath.Dir(at)
}
