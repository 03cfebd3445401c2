package tabular

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A point is a number or a day of a schema: a bound, or what a missing value counts as.
type point struct {
	at   float64 // of a day: how many days it is behind 1970-01-01
	is   pointKind
	word string // what is neither a number nor a day
}

type pointKind int

const (
	isNumber pointKind = iota
	isDay
	isWord
)

// schemaDay is how schemas write days, in whatever format files do.
const schemaDay = "2006-01-02"

// UnmarshalYAML takes any word: check says by the name of a column what is wrong with it.
func (p *point) UnmarshalYAML(decode func(any) error) error {
	if decode(&p.at) == nil {
		return nil
	}
	var word string
	if err := decode(&word); err != nil {
		return err
	}
	*p = point{is: isWord, word: word}
	if day, err := time.Parse(schemaDay, word); err == nil {
		*p = point{is: isDay, at: daysTo(day)}
	}
	return nil
}

// MarshalYAML writes what UnmarshalYAML reads.
func (p point) MarshalYAML() (any, error) {
	if p.is == isNumber {
		return p.at, nil
	}
	return p.String(), nil
}

func (p point) String() string {
	switch p.is {
	case isDay:
		return time.Unix(int64(p.at)*secondsOfDay, 0).UTC().Format(schemaDay)
	case isWord:
		return p.word
	}
	return fmt.Sprint(p.at)
}

const secondsOfDay = 24 * 60 * 60

// daysTo counts days as if all had 24 hours, as they do in UTC.
func daysTo(day time.Time) float64 { return float64(day.Unix() / secondsOfDay) }

// bounds are the least and the greatest number, or day, of a column.
type bounds []point

func (b bounds) low() float64  { return b[0].at }
func (b bounds) high() float64 { return b[1].at }

// String is as a schema writes it.
func (b bounds) String() string {
	var all []string
	for _, p := range b {
		all = append(all, p.String())
	}
	return "[" + strings.Join(all, ", ") + "]"
}

func (b bounds) has(is pointKind) bool {
	return slices.ContainsFunc(b, func(p point) bool { return p.is == is })
}

func (b bounds) check(k kind) error {
	const such = "such as [2019-01-01, 2022-12-31]"
	date := slices.ContainsFunc(b, func(p point) bool { _, ok := anyFormat{}.read(p.word); return ok })
	switch {
	case k != dates && b.has(isDay):
		return fmt.Errorf("its bounds are dates: add kind: date")
	case date:
		return fmt.Errorf("bounds %v: write dates of a schema as year-month-day, %s, however the file writes them", b, such)
	case k == dates && (len(b) != 2 || b.has(isNumber) || b.has(isWord) || !(b.low() < b.high())):
		return fmt.Errorf("bounds %v of kind: date: must be two dates, the earlier one first, %s", b, such)
	case len(b) != 2 || b.has(isWord) || !(b.low() < b.high()) || math.IsInf(b.high()-b.low(), 0):
		return fmt.Errorf("bounds %v: must be two finite numbers, the lower one first", b)
	}
	return nil
}

// kind is what a column says of itself where bounds alone do not say it.
type kind string

const dates kind = "date"

// reader makes a number of a field.
type reader interface {
	read(field string) (x float64, ok bool)
}

// format is how a file writes dates. None is guessed: 01/02/2019 is a day of January in one, and of February in another.
type format string

const defaultFormat format = "YYYY-MM-DD"

// layouts are those of package time. They read days and months without zeros in front, too, where something separates them.
var layouts = map[format]string{
	defaultFormat: "2006-1-2", "YYYY/MM/DD": "2006/1/2", "YYYYMMDD": "20060102",
	"DD.MM.YYYY": "2.1.2006", "DD/MM/YYYY": "2/1/2006", "DD-MM-YYYY": "2-1-2006",
	"MM/DD/YYYY": "1/2/2006", "MM-DD-YYYY": "1-2-2006",
}

func formats() []format { return slices.Sorted(maps.Keys(layouts)) }

// clock is how a time of day begins behind a date.
var clock = regexp.MustCompile(`^[T ] ?[0-9]{1,2}:[0-9]{2}`)

// read ignores a time of day, as which day it is may depend on the place.
func (f format) read(field string) (x float64, ok bool) {
	if at := strings.IndexAny(field, "T "); at >= 0 {
		if !clock.MatchString(field[at:]) {
			return 0, false
		}
		field = field[:at]
	}
	day, err := time.Parse(layouts[f], field)
	if err != nil {
		return 0, false
	}
	return daysTo(day), true
}

// formatNames lists them, for messages.
func formatNames() string {
	var all []string
	for _, f := range formats() {
		all = append(all, string(f))
	}
	return strings.Join(all, ", ")
}

// anyFormat reads what is a date in some format, of no day that matters. Digits alone are rather a number.
type anyFormat struct{}

func (anyFormat) read(field string) (x float64, ok bool) {
	for _, f := range formats() {
		if x, ok = f.read(field); ok && strings.ContainsAny(field, "-./") {
			return x, true
		}
	}
	return 0, false
}
