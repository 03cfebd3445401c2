package plan

import (
	"reflect"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/tables"
)

// Solvers get the same rows where a device makes features for itself as where the host has them.
func TestTableOfFeaturesOnADevice(t *testing.T) {
	c := small()
	c.Features, c.Whiten = "scatter", "none"
	p, err := Resolve(c, Options{Sources: sources(made(1, 40))})
	if err != nil {
		t.Fatal(err)
	}
	rows, values, err := p.Reader().Table(p.Set.Train)
	if err != nil {
		t.Fatal(err)
	}
	want, err := p.table(p.Facts.Linear, tables.Records{Rows: rows, Values: values})
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.table(p.Facts.Linear, tables.Records{Rows: device.Rows{Count: rows.Count, Width: rows.Width, Targets: rows.Targets}})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Error("a solver gets other rows where a device has made the features")
	}
	if _, err := p.table(p.Facts.Linear, tables.Records{}); err == nil {
		t.Error("records that were not given are made up")
	}
}
