package tabular

import (
	"embed"
	"fmt"
)

// Known is a published table whose schema and size the program carries.
type Known struct {
	Name        string
	File        string // as published, without .gz
	Records     int    // published number
	TestRecords int    // of the test file, where there is one
	Note        string // origin
}

//go:embed schemas
var schemas embed.FS

// Schemas lists the published tables.
func Schemas() []Known {
	return []Known{
		{"adult", "adult.data", 32561, 16281, "census income; B. Becker, R. Kohavi 1996, UCI Machine Learning Repository"},
		{"bank", "bank-full.csv", 45211, 0, "bank marketing; S. Moro, P. Rita, P. Cortez 2014, UCI Machine Learning Repository"},
		{"breast-cancer", "breast_cancer.csv", 569, 0, "Wisconsin diagnostic breast cancer; W. Wolberg and others 1995, UCI, in scikit-learn's form"},
		{"credit-card", "UCI_Credit_Card.csv", 30000, 0, "default of credit card clients; I-C. Yeh 2009, UCI Machine Learning Repository"},
		{"bike-sharing", "hour.csv", 17379, 0, "hourly bicycle rentals, a regression; H. Fanaee-T 2013, UCI Machine Learning Repository"},
		{"iris", "iris.csv", 150, 0, "iris; R. A. Fisher 1936, in scikit-learn's form"},
		{"wine-red", "winequality-red.csv", 1599, 0, "quality of red wine, a regression; P. Cortez and others 2009, UCI Machine Learning Repository"},
		{"wine-white", "winequality-white.csv", 4898, 0, "quality of white wine, a regression; P. Cortez and others 2009, UCI Machine Learning Repository"},
	}
}

// Schema is the table's, from the file that is built in.
func (k *Known) Schema() (*Schema, error) {
	text, err := k.Text()
	if err != nil {
		return nil, err
	}
	s, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", k.Name, err)
	}
	return s, nil
}

// Text is the schema's file, to start one's own from.
func (k *Known) Text() ([]byte, error) { return schemas.ReadFile("schemas/" + k.Name + ".yaml") }

func schemaNames() []string {
	var all []string
	for _, k := range Schemas() {
		all = append(all, k.Name)
	}
	return all
}
