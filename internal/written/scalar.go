package written

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// IsValue says whether a field is rather a number, a date or a sign for what is missing than a name.
func IsValue(field string) bool {
	first, _ := utf8.DecodeRuneInString(field)
	_, err := strconv.ParseFloat(field, 64)
	return err == nil || slices.Contains(notNames, strings.ToLower(field)) || unicode.IsDigit(first) || strings.ContainsRune("+-.<>", first) || !strings.ContainsFunc(field, unicode.IsLetter)
}

var (
	notNames  = []string{"na", "n/a", "nil", "null", "none", "missing", "unknown", "true", "false"}
	plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)
	ambiguous = []string{"y", "n", "yes", "no", "on", "off"} // others are notNames
)

// Scalar is a name in YAML, in quotes where it might be read as something else.
func Scalar(name string) string {
	if plainName.MatchString(name) && !slices.Contains(ambiguous, strings.ToLower(name)) {
		return name
	}
	return strconv.Quote(name)
}
