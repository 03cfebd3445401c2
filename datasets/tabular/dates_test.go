package tabular

import (
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/written"
)

const yesNo = "label: {column: y, classes: [\"no\", \"yes\"]}\n"

// valuesOf are what a table's fields of one column become.
func valuesOf(t *testing.T, column string, fields ...string) []float32 {
	t.Helper()
	table := "a;y\n" + strings.Join(fields, ";yes\n") + ";yes\n"
	return open(t, tabled(t, table, "separator: ;\ncolumns:\n  - {name: a, "+column+"}\n"+yesNo), Options{}).Train.Values
}

// A number that is missing or cannot be read counts as the schema says; without a word it counts as the lower bound, or the mean.
func TestMissing(t *testing.T) {
	missing := []string{"", "NA", "nan", "NaN", "-nan", "none", "3,5", "0x10", "1_0", "2019-01-31"}
	there := map[string]float32{"inf": 1, "-Inf": 0, "1e999": 1, "10": 0.5, "99": 1, "-1": 0}
	for column, want := range map[string]float32{
		"bounds: [0, 20]":                              0,
		"bounds: [0, 20], missing: 5":                  0.25,
		"bounds: [0, 20], missing: 0":                  0,
		"bounds: [0, 20], missing: 20":                 1,
		"bounds: [0, 20], mean: 10, sd: 4":             0,
		"bounds: [0, 20], mean: 10, sd: 4, missing: 2": -2,
		"kind: date, bounds: [2019-01-01, 2019-01-11]": 0,
	} {
		fields := missing
		if strings.Contains(column, "date") {
			fields = missing[:len(missing)-1]
		}
		for i, got := range valuesOf(t, column, fields...) {
			if got != want {
				t.Errorf("%s: %q becomes %v, want %v", column, fields[i], got, want)
			}
		}
	}
	for field, want := range there {
		if got := valuesOf(t, "bounds: [0, 20], missing: 5", field); !slices.Equal(got, []float32{want}) {
			t.Errorf("%q becomes %v, want %v", field, got, want)
		}
	}
	if got := valuesOf(t, "kind: date, bounds: ['2019-01-01', 2019-01-11], missing: 2019-01-06", "", "31.01.2019", "2019-02-30"); !slices.Equal(got, []float32{0.5, 0.5, 0.5}) {
		t.Errorf("missing dates become %v", got)
	}
}

// Shares of four years worked out by hand: 1,460 days from the first to the last.
func TestDates(t *testing.T) {
	const column = "kind: date, bounds: [2019-01-01, 2022-12-31], missing: 2022-12-31"
	for field, days := range map[string]float64{
		"2019-01-01": 0, "2022-12-31": 1460, "2019-01-31": 30, "2019-1-31": 30, "2020-02-29": 424, "2020-03-01": 425,
		"1066-10-14": 0, "2999-01-01": 1460,
		"2019-01-31T10:00:00Z": 30, "2019-01-31 10:00": 30, "2019-01-31 23:59:59.9+02:00": 30, "2019-01-31 9:05:00 PM": 30, `"2019-01-31"`: 30,
		"2019-02-29": 1460, "2019-13-01": 1460, "19-01-31": 1460, "2019-01": 1460, "2019": 1460, "31.01.2019": 1460, "20190131": 1460,
		"2019-01-31 to 2019-02-03": 1460, "2019-01-31x": 1460, "2019-01-31T": 1460, "10:00": 1460,
	} {
		if got, want := valuesOf(t, column, field), []float32{float32(days / 1460)}; !slices.Equal(got, want) {
			t.Errorf("%s becomes %v, want %v", field, got, want)
		}
	}
	for format, fields := range map[string][2]string{ // the second is no date of the format, or of another day
		"YYYY-MM-DD": {"2019-02-01", "2019.02.01"}, "YYYY/MM/DD": {"2019/02/01", "2019-02-01"}, "YYYYMMDD": {"20190201", "2019021"},
		"DD.MM.YYYY": {"1.2.2019", "01/02/2019"}, "DD/MM/YYYY": {"01/02/2019 10:00", "02/01/2019"}, "DD-MM-YYYY": {"01-02-2019", "1.2.2019"},
		"MM/DD/YYYY": {"2/1/2019", "01/02/2019"}, "MM-DD-YYYY": {"02-01-2019", "1-2-2019"},
	} {
		got := valuesOf(t, "kind: date, format: "+format+", bounds: [2019-01-01, 2019-03-04]", fields[:]...)
		if want := float32(31) / 62; got[0] != want || got[1] == want {
			t.Errorf("%s: %q become %v, want %v first", format, fields, got, want)
		}
		if len(written.DateFormats()) != 8 {
			t.Errorf("%d formats, and 8 are tested", len(written.DateFormats()))
		}
	}
}

func TestDecimalComma(t *testing.T) {
	const schema = "separator: \";,\"\ndecimal: \",\"\ncolumns: [{name: a, bounds: [0, 4], missing: 1}]\nlabel: {column: y, bounds: [0, 10]}\n"
	for _, table := range []string{"a;y\n3,5;2,5\n3.5;2,5\n3;2,5\n1.000,5;2,5\n", "a,y\n\"3,5\",\"2,5\"\n3.5,\"2,5\"\n3,\"2,5\"\n\"1,000,5\",\"2,5\"\n"} {
		m := open(t, tabled(t, table, schema), Options{}).Train
		if !slices.Equal(m.Values, []float32{0.875, 0.25, 0.75, 0.25}) || !slices.Equal(m.Targets, []float32{0.25, 0.25, 0.25, 0.25}) {
			t.Errorf("%q: %v labelled %v", table, m.Values, m.Targets)
		}
	}
}

// What schemas say that cannot be is refused by the column's name, with what to do.
func TestRefusedColumns(t *testing.T) {
	for column, want := range map[string]string{
		"bounds: [2019-01-01, 2022-12-31]":                                  `column "a": its bounds are dates: add kind: date`,
		"bounds: ['2019-01-01', 5]":                                         "its bounds are dates: add kind: date",
		"bounds: [31.01.2019, 31.12.2022], kind: date":                      "bounds [31.01.2019, 31.12.2022]: write dates of a schema as year-month-day",
		"bounds: [2019/01/01, 2019/12/31]":                                  "write dates of a schema as year-month-day",
		"kind: date":                                                        "kind: date needs bounds",
		"kind: date, categories: [b, c]":                                    "kind: date needs bounds",
		"kind: date, bounds: [2019, 2022]":                                  "must be two dates",
		"kind: date, bounds: [2019-01-01]":                                  "must be two dates",
		"kind: date, bounds: [2019-01-01, 2019-02-30]":                      "must be two dates",
		"kind: date, bounds: [2022-12-31, 2019-01-01]":                      "the earlier one first",
		"kind: date, bounds: [2019-01-01, 2022-12-31], sd: 3":               "leave them out",
		"kind: day, bounds: [0, 1]":                                         "write kind: date for a column of dates, and no kind for others",
		"kind: date, format: YYYY, bounds: [2019-01-01, 2022-12-31]":        `unknown format "YYYY": choose one of DD-MM-YYYY, DD.MM.YYYY, `,
		"format: DD.MM.YYYY, bounds: [0, 1]":                                "add kind: date",
		"bounds: [0, 1], missing: -1":                                       "missing -1: must be within the bounds [0, 1]",
		"bounds: [0, 1], missing: 2":                                        "missing 2: must be within the bounds [0, 1]",
		"bounds: [0, 1], missing: .nan":                                     "missing NaN: must be within the bounds",
		"bounds: [0, 1], missing: mean":                                     "missing mean: must be a number within the bounds [0, 1]",
		"bounds: [0, 1], missing: 2019-01-31":                               "missing 2019-01-31: must be a number",
		"kind: date, bounds: [2019-01-01, 2022-12-31], missing: 3":          "missing 3: must be a date within the bounds [2019-01-01, 2022-12-31]",
		"kind: date, bounds: [2019-01-01, 2022-12-31], missing: 2023-01-01": "missing 2023-01-01: must be within",
		"categories: [b, c], missing: b":                                    "missing is of numbers and dates: leave it out; what is none of the categories counts as none of them",
		"ignore: true, missing: 3":                                          "missing is of numbers and dates",
		"bounds: [0, 1], missing:":                                          "columns.missing has no value: write one, or leave the key out",
		"bounds: [[0], 1]":                                                  "must be a number, not a list",
		"bounds: [low, 3]":                                                  "bounds [low, 3]: must be two finite numbers",
	} {
		_, err := parse([]byte("columns: [{name: a, " + column + "}]\n" + yesNo))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", column, err, want)
		}
	}
	const a = "columns: [{name: a, bounds: [0, 1]}, {name: y"
	for text, want := range map[string]string{
		a + "}]\nlabel: {column: y, bounds: [2019-01-01, 2022-12-31]}": `label "y": it is the label, which cannot be a date`,
		a + ", kind: date}]\n" + yesNo:                                 `column "y": it is the label, which cannot be a date`,
		a + ", missing: 3}]\n" + yesNo:                                 `column "y": it is the label, and missing is of other columns`,
		a + "}]\nlabel: {column: y, classes: [a, b], missing: a}":      "unknown field",
		a + "}]\n" + yesNo + "decimal: x\n":                            `decimal "x": write decimal: ","`,
		a + "}, {name: '', ignore: true}]\n" + yesNo:                   "it has no name",
	} {
		if _, err := parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A schema with placeholders is refused with all of them, by the names of the columns.
func TestUnfilled(t *testing.T) {
	path := tableOf(t, ",age,ward,visit,dose,weight,height,back\n")
	text, err := Skeleton(path, "")
	check(t, err)
	for _, c := range []struct {
		what []string // to replace in the skeleton
		want string
	}{
		{nil, "columns age, ward, visit, dose, weight, height and back: replace LOW and HIGH by public bounds, with kind: date for dates, or write categories or ignore: true instead; " +
			"label: replace LABEL by the column to predict, and list its classes"},
		{[]string{"dose, bounds: [LOW, HIGH", "dose, bounds: [0, 1", "weight, bounds: [LOW, HIGH", "weight, bounds: [0, 1", "visit, bounds: [LOW, HIGH", "visit, bounds: [0, 1", "back, bounds: [LOW, HIGH", "back, bounds: [0, 1", "height, bounds: [LOW, HIGH", "height, bounds: [0, 1"},
			"columns age and ward: replace LOW and HIGH by public bounds, with kind: date for dates, or write categories or ignore: true instead; label: replace LABEL by the column to predict, and list its classes"},
		{[]string{"LABEL", "back", "  - {name: back, bounds: [LOW, HIGH]}\n", "", "dose, bounds: [LOW", "dose, bounds: [0", "weight, bounds: [LOW, HIGH", "weight, bounds: [LOW, 200", "bounds: [LOW, HIGH]}", "ignore: true}"},
			"column dose: replace HIGH by a public upper bound, with kind: date for dates, or write categories or ignore: true instead; column weight: replace LOW by a public lower bound, with kind: date for dates, or write categories or ignore: true instead; label: list the classes of column back"},
		{[]string{"LOW, HIGH]}", "0, 9]}", "classes: []", "bounds: [LOW, HIGH]"}, "label: replace LOW and HIGH by public bounds"},
	} {
		_, err := parse([]byte(strings.NewReplacer(c.what...).Replace(text)))
		if err == nil || err.Error() != c.want {
			t.Errorf("%q: %v, want %s", c.what, err, c.want)
		}
	}
	// A column that says twice what it is has no placeholder to fill in, but one of the two to leave out.
	for _, more := range []string{"ignore: true", "categories: [b, c]"} {
		if _, err := parse([]byte("columns: [{name: a, bounds: [LOW, HIGH], " + more + "}]\n" + yesNo)); err == nil || !strings.Contains(err.Error(), "one of these only") {
			t.Errorf("%s: %v", more, err)
		}
	}
	// The same in a name or a category is none.
	if _, err := parse([]byte("columns: [{name: LOW, categories: [LOW, HIGH]}]\nlabel: {column: LABEL, classes: [LOW, HIGH]}\n")); err != nil {
		t.Error(err)
	}
}

// A header's empty names are those of columns that nothing reads.
func TestUnnamedColumns(t *testing.T) {
	for _, table := range []string{",a,y\n0,0.5,yes\n", ",,a,y\n0,7,0.5,yes\n", "a,,y,\n0.5,2,yes,\n", "\"\",a,y\r\n0,0.5,yes\r\n"} {
		m := open(t, tabled(t, table, "columns: [{name: a, bounds: [0, 1]}]\n"+yesNo), Options{}).Train
		if !slices.Equal(m.Values, []float32{0.5}) || !slices.Equal(m.Labels, []uint8{1}) {
			t.Errorf("%q: %v labelled %v", table, m.Values, m.Labels)
		}
	}
	text, err := Skeleton(tableOf(t, ",,a,y\n"), "y")
	if err != nil || !strings.Contains(text, "# column 2 has no name, and is not used") || strings.Contains(text, `name: ""`) {
		t.Fatalf("%v\n%s", err, text)
	}
	if _, err := parse([]byte(strings.NewReplacer("LOW, HIGH", "0, 1", "classes: []", "classes: [a, b]").Replace(text))); err != nil {
		t.Error(err)
	}
}
