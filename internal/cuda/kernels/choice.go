package kernels

import (
	"errors"
	"fmt"
	"os"
)

// ImagesVariable forces what drivers are given of modules, for tests and measurements of either: ptx or cubin. Where it is not set they
// get what Images gives.
const ImagesVariable = "PRIVGRAD_IMAGES"

// ErrNoCubin is why a module cannot be machine code, though ImagesVariable says so.
var ErrNoCubin = errors.New(ImagesVariable + " is cubin, and there is no machine code for this GPU and driver")

// forced leaves of a module's images what the variable says. The last of them is PTX, and others are machine code.
func forced(images [][]byte) ([][]byte, error) {
	switch form := os.Getenv(ImagesVariable); form {
	case "":
		return images, nil
	case "ptx":
		return images[len(images)-1:], nil
	case "cubin":
		if len(images) == 1 {
			return nil, ErrNoCubin
		}
		return images[:len(images)-1], nil
	default:
		return nil, fmt.Errorf("%s is %q: set it to ptx or cubin, or to nothing, so that a GPU gets machine code where there is some", ImagesVariable, form)
	}
}
