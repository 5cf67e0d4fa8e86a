module cushim/example

go 1.18
