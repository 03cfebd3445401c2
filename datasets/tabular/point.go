package tabular

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/privgrad/privgrad/internal/written"
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
	err := decode(&p.at)
	var word string
	if err == nil || decode(&word) != nil {
		return err
	}
	*p = point{is: isWord, word: word}
	if day, err := time.Parse(schemaDay, word); err == nil {
		*p = point{is: isDay, at: written.Days(day)}
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
		return written.Day(p.at).Format(schemaDay)
	case isWord:
		return p.word
	}
	return fmt.Sprint(p.at)
}

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
	date := slices.ContainsFunc(b, func(p point) bool { _, ok := written.AnyDate{}.Read(p.word); return ok })
	switch {
	case k != dates && b.has(isDay):
		return errors.New("its bounds are dates: add kind: date")
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
	Read(field string) (x float64, ok bool)
}
