module scheduling

go 1.22
