package tabular_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/privgrad/privgrad/datasets/tabular"
)

// A schema of public bounds and categories says what the columns of a table mean.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "privgrad-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	table := filepath.Join(dir, "visits.csv")
	for name, text := range map[string]string{
		table: "age,ward,back\n20,north,no\n70,south,yes\n",
		table + ".schema.yaml": `
columns:
  - {name: age, bounds: [20, 70]}
  - {name: ward, categories: [north, south]}
label: {column: back, classes: ["no", "yes"]}
`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			log.Fatal(err)
		}
	}
	set, err := tabular.Open(table, tabular.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("a record has", set.Train.Shape[2], "values; classes are", set.ClassNames)
	fmt.Println(set.Train.Values)
	// Output:
	// a record has 3 values; classes are [no yes]
	// [0 1 0 1 0 1]
}
