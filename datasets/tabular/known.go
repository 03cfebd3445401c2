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
	Digest      string // of its encoded records, in any order, for Verify alone
}

//go:embed schemas
var schemas embed.FS

// Schemas lists the published tables.
func Schemas() []Known {
	return []Known{
		{"adult", "adult.data", 32561, 16281, "census income; B. Becker, R. Kohavi 1996, UCI Machine Learning Repository", "3a09c4163c691c288ee94ab4d3e2bff8ae8b7502cfc2171450678684744ab7f6"},
		{"bank", "bank-full.csv", 45211, 0, "bank marketing; S. Moro, P. Rita, P. Cortez 2014, UCI Machine Learning Repository", "973b9004953a1e365cf5fe0058e60877081520be1ca3c26e14e0939dc5dd729a"},
		{"breast-cancer", "breast_cancer.csv", 569, 0, "Wisconsin diagnostic breast cancer; W. Wolberg and others 1995, UCI, in scikit-learn's form", "2214ca59d543099c6b81c4000312bea17c583c3b45d5d132e04716702276ff94"},
		{"credit-card", "UCI_Credit_Card.csv", 30000, 0, "default of credit card clients; I-C. Yeh 2009, UCI Machine Learning Repository", "ebc34c831bc619883704cae64c892d7aec61f7adfe3e2c94d85f0499e065da1f"},
		{"bike-sharing", "hour.csv", 17379, 0, "hourly bicycle rentals, a regression; H. Fanaee-T 2013, UCI Machine Learning Repository", "405d9a77375af04ed14203802372c49bd6b6155aec8ab004cb2107d8d4ba22b7"},
		{"iris", "iris.csv", 150, 0, "iris; R. A. Fisher 1936, in scikit-learn's form", "cf23a6e58b7a483e8fae0f4d84439caa8832b1d2239642a4745daea45fb2dff1"},
		{"wine-red", "winequality-red.csv", 1599, 0, "quality of red wine, a regression; P. Cortez and others 2009, UCI Machine Learning Repository", "f992cf74ae442f4028bbe1054faa0097c72881e3698167523e1a2f42b7185022"},
		{"wine-white", "winequality-white.csv", 4898, 0, "quality of white wine, a regression; P. Cortez and others 2009, UCI Machine Learning Repository", "3b5385d5d779cf0eff6ad34c412a174e25b5bf2bccb81afa8b879b059f3be3e8"},
	}
}

// Schema is the table's, from the file that is built in.
func (k *Known) Schema() (*Schema, error) {
	text, err := schemas.ReadFile("schemas/" + k.Name + ".yaml")
	if err != nil {
		return nil, err
	}
	s, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", k.Name, err)
	}
	return s, nil
}

// SchemaNames lists the tables by name.
func SchemaNames() []string {
	var all []string
	for _, k := range Schemas() {
		all = append(all, k.Name)
	}
	return all
}
