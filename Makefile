# Every target says what it does behind "##"; make help lists them.

.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the program: ./tokenlease
	go build -o tokenlease ./cmd/tokenlease

.PHONY: test
test: ## Run all tests
	go test -shuffle=on ./...

.PHONY: race
race: ## Run all tests with the race detector
	go test -race -shuffle=on ./...

.PHONY: vet
vet: ## Run go vet
	go vet ./...

.PHONY: lint
lint: ## Check the code and the proto files (installs the linters once)
	PATH="$$(.ci/tools):$$PATH"; golangci-lint run ./...; buf lint

.PHONY: generate
generate: ## Generate code from the proto files
	PATH="$$(.ci/tools):$$PATH"; buf generate

.PHONY: generate-check
generate-check: ## Check that the generated code is that of the proto files
	.ci/generate-check

.PHONY: demo
demo: ## Three regions, one budget, one crash: see it hold
	go run ./cmd/tokenlease demo

.PHONY: release
release: ## Build what is released, twice, with its bill of materials: ./release
	.ci/release release

.PHONY: vulnerabilities
vulnerabilities: ## Check what the program calls against the Go vulnerability database
	.ci/vulnerabilities

.PHONY: ci
ci: ## Run all that continuous integration runs
	.ci/run
