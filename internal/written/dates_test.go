package written

import (
	"testing"
	"time"
)

// Every format reads the days of a leap year as they follow each other, with and without zeros in front and a time behind.
func TestDates(t *testing.T) {
	for _, f := range DateFormats() {
		for i := range 366 {
			day := time.Date(2020, 1, 1+i, 0, 0, 0, 0, time.UTC)
			want := 18262 + float64(i) // of the 50 years from 1970 on, 12 are leap years
			for _, layout := range []string{layouts[f], layouts[f] + " 15:04", layouts[f] + "T15:04:05Z07:00"} {
				if got, ok := f.Read(day.Format(layout)); !ok || got != want {
					t.Fatalf("%s reads %s as %v, %v, want %v", f, day.Format(layout), got, ok, want)
				}
			}
			if got := Day(want); !got.Equal(day) {
				t.Fatalf("day %v is %v, want %v", want, got, day)
			}
		}
		if _, ok := (AnyDate{}).Read(time.Date(2020, 5, 31, 0, 0, 0, 0, time.UTC).Format(layouts[f])); ok != (f != "YYYYMMDD") {
			t.Errorf("%s is some date: %v", f, ok)
		}
	}
	for _, text := range []string{"", " ", "T", "3.14", "2019-02-29", "2019-00-01", "2019-01-32", "02019-01-01", "2019-01-01 ", "2019-01-01T", "2019-01-01 x", "2019-01-01-01", "１９-01-01"} {
		for _, f := range DateFormats() {
			if x, ok := f.Read(text); ok {
				t.Errorf("%s reads %q as %v", f, text, x)
			}
		}
	}
	if Days(time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)) != -1 {
		t.Error("the day before the first is not −1")
	}
}
