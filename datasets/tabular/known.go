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
	Digest      string // of its encoded records, in any order, for Verify alone; empty where nobody computed it
	SHA256      string // of the file, where it comes from a place that may change
}

// agd is where the authors of DP-AGD keep the tables that they prepared.
const agd = "as prepared for DP-AGD, in the directory dataset of https://github.com/ppmlguy/DP-AGD"

//go:embed schemas
var schemas embed.FS

// Schemas lists the published tables.
func Schemas() []Known {
	return []Known{
		{"adult", "adult.data", 32561, 16281, "census income; B. Becker, R. Kohavi 1996, UCI Machine Learning Repository", "de11952d95ca30bdc7275344da748aa46068d3bd927e37813487871363c90869", ""},
		{"bank", "bank-full.csv", 45211, 0, "bank marketing; S. Moro, P. Rita, P. Cortez 2014, UCI Machine Learning Repository", "9ff6715a35ca42aa877aeecceb8e7d962f904d8c2fe59e73830adea5a074f30d", ""},
		{"breast-cancer", "breast_cancer.csv", 569, 0, "Wisconsin diagnostic breast cancer; W. Wolberg and others 1995, UCI, in scikit-learn's form", "e85198ca8f537c88518f4ad97fa46c54ef589fc7f1494d92a0261ea324f9cbb5", ""},
		{"credit-card", "UCI_Credit_Card.csv", 30000, 0, "default of credit card clients; I-C. Yeh 2009, UCI Machine Learning Repository", "5119c897adfbd89ee857a5ad9429b7ca049fcd396a7938876b06acd7bbb88afa", ""},
		{"bike-sharing", "hour.csv", 17379, 0, "hourly bicycle rentals, a regression; H. Fanaee-T 2013, UCI Machine Learning Repository", "70ae8cc1985b352dfec29f64d2cd74459a50b13f19b6623d53e4485619ae085d", ""},
		{"iris", "iris.csv", 150, 0, "iris; R. A. Fisher 1936, in scikit-learn's form", "253311940ea2807f009dafbdb253f94a246c0b17ce2027df7002a0b900c45761", ""},
		{"wine-red", "winequality-red.csv", 1599, 0, "quality of red wine, a regression; P. Cortez and others 2009, UCI Machine Learning Repository", "1ce07137b0f334f62cef3ff2d993d67a7e68dcfb6cd85f5a233acf7be48bf007", ""},
		{"wine-white", "winequality-white.csv", 4898, 0, "quality of white wine, a regression; P. Cortez and others 2009, UCI Machine Learning Repository", "e26afeeff3c299ddbc6b16b4daa7498d03d9036e0d9ed399f7efb934b58f79f6", ""},
		{"wine", "winequality-red.csv", 6497, 0, "quality of red and white wine, a regression: by --schema wine, with winequality-white.csv beside the file; P. Cortez and others 2009, UCI Machine Learning Repository", "7a04931e31e211f062b790680157568242d2141f5456171a2058a1261ae8fd64", ""},
		{"ipums-br", "IPUMS-BR.dat", 38000, 0, "census of Brazil, an extract of IPUMS " + agd + "; IPUMS forbids others to redistribute it", "2b70f8a76c7fe7521d6ad84b69afd52b42d4f87985d573caea50e7764e188be4", "9bcc80cf279457d62e9025d31a05c3e494e9d6edbb2097ba935eb4926a39884a"},
		{"bank-agd", "BANK.dat", 45211, 0, "the table bank " + agd, "a3072838590baa438c7ac89a452c34056ebd9d3f468ac6d41dcf9fb4b9f97b5f", "fe536a257d242b1fb78dd0e753d2c50176ef12a5dd23dfb86402f62127a3b96e"},
		{"kdd99-sf", "kddcup.data", 699691, 0, "connections of KDD Cup 1999 that logged in; S. Bay and others, UCI KDD Archive (kddcup.data.gz); 0.3% of them are attacks. scikit-learn's documentation states the number of records; nobody checked a digest", "", ""},
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
