package written

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// DateFormat is how a file writes dates. None is guessed: 01/02/2019 is a day of January in one, and of February in another.
type DateFormat string

// ISO is the format of ISO 8601.
const ISO DateFormat = "YYYY-MM-DD"

// layouts are those of package time. They read days and months without zeros in front, too, where something separates them.
var layouts = map[DateFormat]string{
	ISO: "2006-1-2", "YYYY/MM/DD": "2006/1/2", "YYYYMMDD": "20060102",
	"DD.MM.YYYY": "2.1.2006", "DD/MM/YYYY": "2/1/2006", "DD-MM-YYYY": "2-1-2006",
	"MM/DD/YYYY": "1/2/2006", "MM-DD-YYYY": "1-2-2006",
}

// DateFormats lists them all.
func DateFormats() []DateFormat { return slices.Sorted(maps.Keys(layouts)) }

// clock is how a time of day begins behind a date.
var clock = regexp.MustCompile(`^[T ] ?[0-9]{1,2}:[0-9]{2}`)

// Read gives the number of a day. It ignores a time of day, as which day it is may depend on the place.
func (f DateFormat) Read(field string) (x float64, ok bool) {
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
	return Days(day), true
}

const secondsOfDay = 24 * 60 * 60

// Days is the number of a day: how many it is behind 1970-01-01. All have 24 hours, as in UTC.
func Days(day time.Time) float64 { return float64(day.Unix() / secondsOfDay) }

// Day is the day of a number.
func Day(days float64) time.Time { return time.Unix(int64(days)*secondsOfDay, 0).UTC() }

// AnyDate reads what is a date in some format, of no day that matters. Digits alone are rather a number.
type AnyDate struct{}

// Read is that of the first format that reads the field.
func (AnyDate) Read(field string) (x float64, ok bool) {
	for _, f := range DateFormats() {
		if x, ok = f.Read(field); ok && strings.ContainsAny(field, "-./") {
			return x, true
		}
	}
	return 0, false
}
