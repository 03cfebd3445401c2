package kernels

import (
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

//go:embed ptx/*.ptx
var files embed.FS

//go:embed ptxas.md
var resources string

// Modules lists the modules.
func Modules() ([]string, error) {
	entries, err := files.ReadDir("ptx")
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".ptx"))
	}
	return names, err
}

// PTX is the assembly of a module.
func PTX(module string) ([]byte, error) {
	ptx, err := files.ReadFile("ptx/" + module + ".ptx")
	if err != nil {
		return nil, fmt.Errorf("there is no module %s of kernels", module)
	}
	return ptx, nil
}

// Registers is how many a thread of a kernel has on a generation, 80 or 90 for instance, as the
// assembler that wrote ptxas.md said; 0 where that does not say.
func Registers(module, kernel string, capability int) int {
	column := -1
	for line := range strings.Lines(resources) {
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if at := slices.Index(cells, "sm_"+strconv.Itoa(capability)); at > 0 {
			column = at
		}
		if column > 0 && column < len(cells) && cells[1] == module && cells[2] == kernel {
			n, _ := strconv.Atoi(strings.Fields(cells[column])[0])
			return n
		}
	}
	return 0
}
