package statement

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A unit is what the guarantee protects.
type unit struct {
	noun  string // one of them
	means string // what it is
	group string // several of them that belong together
	local bool   // nobody but its owner sees it
}

// unitOf reads privacy_unit. One that this version does not know is named as it is.
func unitOf(name string) unit {
	name, rest, _ := strings.Cut(name, ",")
	u := unit{noun: strings.TrimPrefix(name, "one "), local: strings.Contains(rest, "local")}
	u.group = fmt.Sprintf("several %ss together, such as those of a family", u.noun)
	switch u.noun {
	case "record":
		u.means = "A record is one entry of the training data, such as one picture or one row of a table, with its label."
		u.group = "several records together, such as those of one person or of a family"
	case "user":
		u.means = "A user is one person, or whatever else the records were grouped by. All records of a user count together."
		u.group = "several users together, such as a family"
	}
	return u
}

// number writes a figure for people: at most six digits, without an exponent where that is short.
func number(x float64) string {
	if x != 0 && math.Abs(x) < 1e-4 || math.Abs(x) >= 1e7 {
		return strconv.FormatFloat(x, 'g', 4, 64)
	}
	return strconv.FormatFloat(float64(float32(x)), 'g', 6, 32)
}

// whole writes a whole number with a comma before every three digits.
func whole(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// count writes a figure of records, which may be an average.
func count(x float64) string {
	if x == math.Trunc(x) && x < 1e15 {
		return whole(int(x))
	}
	return number(x)
}

// percentUp is a share in percent, rounded up to a tenth, as bounds from above are.
func percentUp(x float64) string {
	return fmt.Sprintf("%.1f%%", min(math.Ceil(1000*x-1e-9)/10, 100))
}

// oneIn says behind a probability how rare something is; empty where that is no help.
func oneIn(p float64) string {
	if !(p > 1e-15) || p > 0.5 {
		return ""
	}
	digits := math.Pow(10, math.Floor(math.Log10(1/p))-2)
	return " (1 in " + whole(int(math.Round(1/p/digits)*digits)) + ")"
}

// factor writes e^ε, rounded up: with three digits or so, or as a power of ten.
func factor(epsilon float64) string {
	x := math.Exp(epsilon)
	if x > 1e6 {
		return fmt.Sprintf("10^%.0f", math.Ceil(epsilon/math.Ln10))
	}
	digits := max(0, 2-int(math.Log10(x)))
	unit := math.Pow(10, float64(digits))
	return strconv.FormatFloat(math.Ceil(x*unit-1e-9)/unit, 'f', digits, 64)
}

// plural is of a noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return whole(n) + " " + noun + "s"
}
