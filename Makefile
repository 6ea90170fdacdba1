# One Makefile, no recursion. `make V=1` shows the commands; MODE picks the build:
# opt (shipped), asan, cov, fuzz. Programs are found by file prefix (DESIGN: the prefix
# names the process), so a new file needs no line here.
.SUFFIXES:
.DELETE_ON_ERROR:
MAKEFLAGS += -rR --no-print-directory
ifeq ($(origin CC),default)
CC	:= gcc
endif
CC	?= gcc
AR	= ar
PKG	= pkg-config
MODE	?= opt
B	= build/$(notdir $(CC))-$(MODE)

STD	= -std=gnu17 -D_GNU_SOURCE
WARN	= -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Wformat=2 -Wcast-qual -Wwrite-strings \
	  -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wpointer-arith -Wundef -Wvla \
	  -Walloca -Wswitch-enum -Wimplicit-fallthrough -Wnull-dereference
WGCC	= -Wduplicated-cond -Wduplicated-branches -Wlogical-op -Wjump-misses-init -Wformat-signedness \
	  -Warith-conversion -Wstack-usage=65536
HARD	= -fstack-protector-strong -fstack-clash-protection -fcf-protection=full -fPIE \
	  -fno-strict-aliasing -fno-delete-null-pointer-checks -fvisibility=hidden
HGCC	= -ftrivial-auto-var-init=zero -fzero-call-used-regs=used-gpr
# What starts and stands inside sandboxes: nothing to load, so nothing to wait for.
STATIC	= $(if $(findstring fsanitize,$(LD_)),,-static-pie)
# And musl where it is there: glibc's start asks the processor for its caches, and in a virtual machine
# each such question goes to the host: together they take longer than all of a sandbox's namespaces.
MULTI	:= $(shell gcc -print-multiarch)
MUSL	:= $(if $(filter gcc:opt gcc:layers,$(notdir $(CC)):$(MODE)),$(patsubst %/musl-gcc.specs,%,$(wildcard \
	   /usr/lib/$(subst -gnu,-musl,$(MULTI))/musl-gcc.specs)))
MUSLI	= $(subst /usr/lib/,/usr/include/,$(MUSL))
LHARD	= -pie -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code,--as-needed,--build-id=sha1
REPRO	= -ffile-prefix-map=$(CURDIR)=. -Werror=date-time
ifeq ($(findstring clang,$(notdir $(CC))),)
WARN	+= $(WGCC)
HARD	+= $(HGCC)
endif

ifeq ($(MODE),opt)
OPT	= -O2 -g -D_FORTIFY_SOURCE=3 $(HARD)
LD_	= $(LHARD)
else ifeq ($(MODE),layers)
OPT	= -O2 -g -D_FORTIFY_SOURCE=3 $(HARD) -DSANDBOX_TEST_LAYERS
LD_	= $(LHARD)
else ifeq ($(MODE),asan)
# MODE_SANITIZED relaxes the seccomp filters (the sanitizers' run time needs more
# calls); a test proves that MODE=opt programs do not have it.
OPT	= -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all -DMODE_SANITIZED
LD_	= -fsanitize=address,undefined
else ifeq ($(MODE),cov)
OPT	= -O0 -g --coverage -DMODE_SANITIZED
LD_	= --coverage
else ifeq ($(MODE),fuzz)
OPT	= -O1 -g -fsanitize=fuzzer-no-link,address,undefined -DMODE_SANITIZED
LD_	= -fsanitize=address,undefined
LDFUZZ	= -fsanitize=fuzzer,address,undefined
endif
WERROR	?= -Werror
CFLAGS_ALL = $(STD) $(OPT) $(WARN) $(WERROR) $(REPRO) -I. -I$(B) -MMD -MP $(CPPFLAGS) $(CFLAGS)
ifneq ($(V),1)
Q	= @
say	= @echo "  $(1)	$(2)";
endif

# --- what is built -------------------------------------------------------------------
# Libraries: one per module or process prefix; *_main.c stays out, so tests can link them.
src	= $(filter-out %_main.c,$(wildcard $(1)))
LIBS	= common policy policypg audit writer witness brokerp front core upstream parser console courier agent e2b sandbox super inside cli
SRC_common	= $(call src,common/*.c)
SRC_policypg	= $(call src,policy/facts_*.c)
SRC_policy	= $(filter-out $(SRC_policypg),$(call src,policy/*.c))
SRC_writer	= $(call src,audit/writer_*.c)
SRC_witness	= $(call src,audit/witness_*.c)
SRC_audit	= $(filter-out $(SRC_writer) $(SRC_witness),$(call src,audit/*.c))
SRC_brokerp	= $(call src,broker/broker_*.c)
SRC_front	= $(call src,broker/front_*.c)
SRC_core	= $(call src,broker/core_*.c)
SRC_upstream	= $(call src,broker/upstream_*.c)
SRC_console	= $(call src,broker/console_*.c)
SRC_courier	= $(call src,broker/courier_*.c)
SRC_parser	= $(call src,broker/parser_*.c)
SRC_sandbox	= $(call src,agent/sandbox/sandbox*.c)
SRC_super	= $(call src,agent/sandbox/super_*.c agent/sandbox/native_*.c agent/sandbox/oci_*.c agent/sandbox/filter*.c)
SRC_inside	= $(call src,agent/sandbox/inside_*.c)
SRC_cli	= $(call src,agent/sandbox/cli_*.c)
SRC_e2b	= $(call src,agent/e2b_*.c)
SRC_agent	= $(filter-out $(SRC_e2b),$(call src,agent/*.c))
lib	= $(foreach l,$(1),$(B)/lib$(l).a)

# Programs: main file, our libraries (in link order), foreign libraries.
PROGS	= cofferdam-broker cofferdam-front cofferdam-core cofferdam-upstream cofferdam-writer \
	  cofferdam-parser cofferdam-console cofferdam-courier cofferdam-witness cofferdam-agent cofferdam-mcp cofferdam-sandboxd cofferdam-sandbox cofferdam-inside cofferdam-init cofferdam-cmd cofferdam-ics cofferdam
MAIN_cofferdam-broker	= broker/broker_main.c
USE_cofferdam-broker	= brokerp common
EXT_cofferdam-broker	= -lcjson -lseccomp -lsodium -lcrypto
MAIN_cofferdam-front	= broker/front_main.c
USE_cofferdam-front	= front common
EXT_cofferdam-front	= -lssl -lcrypto -lcjson -lseccomp -lsodium
MAIN_cofferdam-core	= broker/core_main.c
USE_cofferdam-core	= core audit policy common
EXT_cofferdam-core	= -lcrypto -lcjson -lseccomp -lsodium
MAIN_cofferdam-upstream	= broker/upstream_main.c
USE_cofferdam-upstream	= upstream audit common
EXT_cofferdam-upstream	= -lcurl -lssl -lcrypto -lcares -lz -lcjson -lseccomp -lsodium
MAIN_cofferdam-writer	= audit/writer_main.c
USE_cofferdam-writer	= writer audit common
EXT_cofferdam-writer	= -lcrypto -lcjson -lseccomp -lsodium
MAIN_cofferdam-parser	= broker/parser_main.c
USE_cofferdam-parser	= parser policypg policy common
EXT_cofferdam-parser	= -lpg_query -lz -lcjson -lseccomp -lsodium -lcrypto -lm -lpthread
MAIN_cofferdam-console	= broker/console_main.c
USE_cofferdam-console	= console common
EXT_cofferdam-console	= -lssl -lcrypto -lcjson -lseccomp -lsodium
MAIN_cofferdam-courier	= broker/courier_main.c
USE_cofferdam-courier	= courier upstream audit common
EXT_cofferdam-courier	= -lcurl -lssl -lcrypto -lcares -lz -lcjson -lseccomp -lsodium
MAIN_cofferdam-witness	= audit/witness_main.c
USE_cofferdam-witness	= witness audit common
EXT_cofferdam-witness	= -lssl -lcrypto -lcjson -lseccomp -lsodium
MAIN_cofferdam-agent	= agent/agent_main.c
USE_cofferdam-agent	= agent sandbox common
EXT_cofferdam-agent	= -lcjson -lseccomp -lsodium -lcrypto
MAIN_cofferdam-sandboxd	= agent/e2b_main.c
USE_cofferdam-sandboxd	= e2b agent sandbox common
EXT_cofferdam-sandboxd	= -lssl -lcrypto -lcjson -lseccomp -lsodium
MAIN_cofferdam-mcp	= agent/mcp_main.c
USE_cofferdam-mcp	= agent sandbox common
EXT_cofferdam-mcp	= -lssl -lcrypto -lcjson -lseccomp -lsodium
MAIN_cofferdam-sandbox	= agent/sandbox/super_main.c
USE_cofferdam-sandbox	= super sandbox common
EXT_cofferdam-sandbox	= $(STATIC)
MAIN_cofferdam-inside	= agent/sandbox/inside_main.c
USE_cofferdam-inside	= inside common
EXT_cofferdam-inside	= $(STATIC)
MAIN_cofferdam-cmd	= cmd/cmd_main.c
USE_cofferdam-cmd	= cmd core audit policy common
EXT_cofferdam-cmd	= -lcrypto -lcjson -lsodium -lseccomp -lsqlite3
MAIN_cofferdam-ics	= cmd/ics_main.c
USE_cofferdam-ics	= common
EXT_cofferdam-ics	= -lical -lcrypto -lcjson -lsodium -lseccomp
MAIN_cofferdam		= agent/sandbox/cli_main.c
USE_cofferdam		= cli sandbox super sandbox common
EXT_cofferdam		= $(STATIC)
SRC_cmd	= $(call src,cmd/*.c)
LIBS	+= cmd

# Beside the programs, where these look first.
PROFILES = $(patsubst %,$(B)/%,$(wildcard profiles/*.json))
all: $(PROGS:%=$(B)/%) $(PROFILES)
$(B)/profiles/%: profiles/%
	@mkdir -p $(@D)
	$(call say,CP,$<)cp $< $@

# The programs that are static, and their libraries: built a second time with musl.
SMALL	= cofferdam-sandbox cofferdam-inside cofferdam
SMALLC	= $(shell grep -LE '<(openssl/|cjson/|seccomp|sodium)|"common/ossl' common/*.c)
MUSLF	= -nostdinc -isystem common/musl -isystem $(MUSLI) -isystem $(B)/musl/linux \
	  -isystem $(shell $(CC) -print-file-name=include)
ifneq ($(MUSL),)
$(B)/musl/linux/done:
	@mkdir -p $(@D)
	$(Q)for d in linux asm-generic; do ln -sfn /usr/include/$$d $(@D)/$$d; done
	$(Q)ln -sfn /usr/include/$(MULTI)/asm $(@D)/asm && touch $@
$(B)/musl/%.o: %.c Makefile $(B)/musl/linux/done
	@mkdir -p $(@D)
	$(call say,CC,$@)$(CC) $(filter-out -D_FORTIFY_SOURCE=%,$(CFLAGS_ALL)) -Wno-sign-compare -Wno-conversion -Wno-sign-conversion -Wno-arith-conversion $(MUSLF) -c -o $@ $<
$(B)/musl/lib%.a:
	$(call say,AR,$@)rm -f $@ && $(AR) rcsD $@ $^
$(foreach l,sandbox super inside cli,$(eval $(B)/musl/lib$(l).a: $(SRC_$(l):%.c=$(B)/musl/%.o)))
$(B)/musl/libcommon.a: $(SMALLC:%.c=$(B)/musl/%.o)
define small
$(B)/$(1): $(MAIN_$(1):%.c=$(B)/musl/%.o) $(USE_$(1):%=$(B)/musl/lib%.a)
	$$(call say,LD,$$@)$(CC) -nostdlib -nostartfiles -static-pie $(filter-out -pie,$(LD_)) $(LDFLAGS) -o $$@ $(MUSL)/rcrt1.o $(MUSL)/crti.o \
		$$^ $(USE_$(1):%=$(B)/musl/lib%.a) $(MUSL)/libc.a -lgcc $(MUSL)/crtn.o
endef
$(foreach p,$(SMALL),$(eval $(call small,$(p))))
$(B)/musl/agent/sandbox/filter.o: $(B)/agent/sandbox/filter_bpf.h
$(B)/musl/agent/sandbox/sandbox_context.o: $(B)/agent/sandbox/context_drivers.h
endif

objs	= $(patsubst %.c,$(B)/%.o,$(1))
$(B)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(CFLAGS_ALL) -c -o $@ $<
define library
$(B)/lib$(1).a: $(call objs,$(SRC_$(1)))
	@mkdir -p $$(@D)
	$$(call say,AR,$$@)rm -f $$@ && $(AR) rcsD $$@ $(call objs,$(SRC_$(1)))
endef
$(foreach l,$(LIBS),$(eval $(call library,$(l))))
define program
$(B)/$(1): $(call objs,$(MAIN_$(1))) $(call lib,$(USE_$(1)))
	$$(call say,LD,$$@)$(CC) $(LD_) $(LDFLAGS) -o $$@ $(call objs,$(MAIN_$(1))) $(call lib,$(USE_$(1))) $(EXT_$(1))
endef
$(foreach p,$(filter-out cofferdam-init $(if $(MUSL),$(SMALL)),$(PROGS)),$(eval $(call program,$(p))))
# Pid 1 of a sandbox: no C library, no sanitizer, in every mode.
SRC_init	= $(wildcard agent/sandbox/init/*.c)
CFLAGS_init	= $(STD) -D_GNU_SOURCE -Os $(WARN) $(WERROR) $(REPRO) -I. -ffreestanding -fno-builtin -fno-stack-protector \
	  -fno-strict-aliasing -fno-asynchronous-unwind-tables -fcf-protection=none -fvisibility=hidden -fno-pie \
	  $(if $(findstring clang,$(notdir $(CC))),,-fno-tree-loop-distribute-patterns -ftrivial-auto-var-init=zero) \
	  $(if $(findstring aarch64,$(shell $(CC) -dumpmachine)),-mno-outline-atomics) $(filter -DSANDBOX_TEST_LAYERS,$(OPT))
LDFLAGS_init	= -static -nostdlib -nostartfiles -s -Wl,-z,noexecstack -Wl,-z,noseparate-code -Wl,--build-id=none
$(B)/cofferdam-init $(B)/test_init_scan: $(SRC_init) $(wildcard agent/sandbox/init/*.h) agent/sandbox/inside.h Makefile
	@mkdir -p $(@D)
	$(call say,CC,$@)$(CC) $(CFLAGS_init) $(LDFLAGS_init) -o $@ $(SRC_init)
# For a test: as on a kernel without lists of children.
$(B)/test_init_scan: CFLAGS_init += -DMINDER_CHILDREN='"/proc/none"'

# The system call filter: its table becomes programs for the kernel here, not at run time.
GEN	= $(call objs,$(wildcard agent/sandbox/gen/*.c))
$(B)/filter_gen: $(GEN) $(call lib,common)
	$(call say,LD,$@)$(CC) $(LD_) $(LDFLAGS) -o $@ $(GEN) $(call lib,common) -lseccomp
$(B)/agent/sandbox/filter_bpf.h: $(B)/filter_gen
	@mkdir -p $(@D)
	$(call say,GEN,$@)$< > $@
$(B)/agent/sandbox/filter.o $(B)/tests/unit/t_filter.o: $(B)/agent/sandbox/filter_bpf.h

# The drivers of contexts: readable files there, arrays in the library.
DRIVERS	= $(sort $(wildcard agent/sandbox/context/driver.*))
$(B)/agent/sandbox/context_drivers.h: $(DRIVERS) Makefile
	@mkdir -p $(@D)
	$(call say,GEN,$@)for f in $(DRIVERS); do echo "static const uint8_t driver_$${f##*.}[] = {"; \
		od -An -v -tx1 $$f | sed 's/ \(..\)/0x\1,/g'; \
		echo "};"; echo "static const size_t driver_$${f##*.}_size = sizeof(driver_$${f##*.});"; done > $@
$(B)/agent/sandbox/sandbox_context.o: $(B)/agent/sandbox/context_drivers.h

# What the console's browsers load.
ASSETS	= $(sort $(wildcard broker/console/console.*))
$(B)/broker/console_assets.h: $(ASSETS) Makefile
	@mkdir -p $(@D)
	$(call say,GEN,$@)for f in $(ASSETS); do echo "static const uint8_t asset_$${f##*.}[] = {"; \
		od -An -v -tx1 $$f | sed 's/ \(..\)/0x\1,/g'; \
		echo "};"; echo "static const size_t asset_$${f##*.}_size = sizeof(asset_$${f##*.});"; done > $@
$(B)/broker/console_page.o: $(B)/broker/console_assets.h

# What a page of replay carries in itself.
PAGE	= $(sort $(wildcard audit/page/page.*))
$(B)/audit/replay_page_assets.h: $(PAGE) Makefile
	@mkdir -p $(@D)
	$(call say,GEN,$@)for f in $(PAGE); do echo "static const uint8_t page_$${f##*.}[] = {"; \
		od -An -v -tx1 $$f | sed 's/ \(..\)/0x\1,/g'; \
		echo "};"; echo "static const size_t page_$${f##*.}_size = sizeof(page_$${f##*.});"; done > $@
$(B)/audit/replay_page_top.o: $(B)/audit/replay_page_assets.h

# --- tests ---------------------------------------------------------------------------
UNIT	= $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/t_*.c))
FUZZ	= $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
TESTLIBS = $(call lib,core front console courier upstream witness writer audit parser policypg policy brokerp e2b agent cli super sandbox inside common)
TESTEXT	= -lcurl -lssl -lcrypto -lcares -lz -lcjson -lseccomp -lsodium -lpg_query -lsqlite3 -lm -lpthread
$(B)/t_%: $(B)/tests/unit/t_%.o $(TESTLIBS)
	$(call say,LD,$@)$(CC) $(LD_) $(LDFLAGS) -o $@ $< -Wl,--start-group $(TESTLIBS) -Wl,--end-group $(TESTEXT) -lcmocka
$(B)/fuzz_%: $(B)/tests/fuzz/fuzz_%.o $(TESTLIBS)
	$(call say,LD,$@)$(CC) $(LDFUZZ) $(LDFLAGS) -o $@ $< $(BESIDE) -Wl,--start-group $(TESTLIBS) -Wl,--end-group $(TESTEXT)

# The same fuzz targets, fed from the corpus by a plain main: part of `make check`.
$(B)/replay_%: $(B)/tests/fuzz/fuzz_%.o $(B)/tests/fuzz/replay_main.o $(TESTLIBS)
	$(call say,LD,$@)$(CC) $(LD_) $(LDFLAGS) -o $@ $< $(B)/tests/fuzz/replay_main.o $(BESIDE) -Wl,--start-group $(TESTLIBS) -Wl,--end-group $(TESTEXT)
REPLAY	= $(FUZZ:fuzz_%=$(B)/replay_%)
# Small drivers and probes that system tests run: tests/tools/NAME.c -> $(B)/tool_NAME.
TOOLS	= $(patsubst tests/tools/%.c,$(B)/tool_%,$(wildcard tests/tools/*.c))
$(B)/tool_%: $(B)/tests/tools/%.o $(TESTLIBS)
	$(call say,LD,$@)$(CC) $(LD_) $(LDFLAGS) -o $@ $< $(BESIDE) -Wl,--start-group $(TESTLIBS) -Wl,--end-group $(TESTEXT)
# What stands beside our HTTP reader in its differential: llhttp, from Debian's source, strict.
LLHTTP	= /usr/share/llhttp
LLHTTPO	= $(patsubst %,$(B)/llhttp/%.o,api http llhttp) $(B)/tests/fuzz/llhttp_check.o
LLHTTPI	= -DLLHTTP_STRICT_MODE=1 -isystem /usr/share/include/llhttp
$(B)/llhttp/%.o: $(LLHTTP)/%.c Makefile
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(STD) $(OPT) -w $(LLHTTPI) -c -o $@ $<
$(B)/tests/fuzz/llhttp_check.o: override CPPFLAGS += $(LLHTTPI)
$(B)/fuzz_http_llhttp $(B)/replay_http_llhttp $(B)/tool_http_differential: BESIDE = $(LLHTTPO)
$(B)/fuzz_http_llhttp $(B)/replay_http_llhttp $(B)/tool_http_differential: $(LLHTTPO)
# The attacks of tests/walls: one static program without sanitizers in every mode, since it runs inside.
$(B)/walls_probe: $(wildcard tests/walls/*.[ch]) Makefile
	@mkdir -p $(@D)
	$(call say,CC,$@)$(CC) $(STD) -O1 -g $(WARN) $(WERROR) $(REPRO) -I. -fno-toplevel-reorder -static -pthread -o $@ $(wildcard tests/walls/*.c)
# The same programs but for a switch that leaves out layers: only for tests/system/43-walls.t.
layers: ; $(Q)$(MAKE) CC=gcc MODE=layers $(patsubst %,build/gcc-layers/%,cofferdam cofferdam-sandbox cofferdam-inside cofferdam-init)
BENCH	= $(patsubst tests/bench/%.c,$(B)/bench_%,$(wildcard tests/bench/*.c))
$(B)/bench_%: $(B)/tests/bench/%.o $(TESTLIBS)
	$(call say,LD,$@)$(CC) $(LD_) $(LDFLAGS) -o $@ $< -Wl,--start-group $(TESTLIBS) -Wl,--end-group $(TESTEXT)

tests: all $(UNIT:%=$(B)/%) $(REPLAY) $(TOOLS) $(B)/test_init_scan $(B)/walls_probe layers
unit: tests
	$(Q)CMOCKA_MESSAGE_OUTPUT=TAP prove --merge -e '' $(UNIT:%=$(B)/%)

# Everything, simple to complex, so that the first failure is the meaningful one. BUILD tells
# the scripts where the programs are.
# Foreign suites and clients that are fetched for them alone.
INTEROP	= $(wildcard tests/interop/mcp-*.t tests/interop/e2b-*.t)
AGENTS	= $(wildcard tests/interop/agent-*.t)
LADDER	= tests/arrows.sh tests/house.sh tests/links.sh $(UNIT:%=$(B)/%) $(sort $(wildcard tests/system/*.t)) \
	  $(sort $(filter-out $(INTEROP) $(AGENTS),$(wildcard tests/interop/*.t))) $(sort $(wildcard tests/incidents/*.t))
run-ladder: tests
	$(Q)BUILD=$(CURDIR)/$(B) MODE=$(MODE) CMOCKA_MESSAGE_OUTPUT=TAP prove --merge --timer --failures --comments -e '' $(LADDER)

# --- the commands people use ---------------------------------------------------------
deps: ; $(Q).ci/deps
check: deps
	$(Q)$(MAKE) -j2 all tests
	$(Q)$(MAKE) -j2 CC=clang all
	$(Q)$(MAKE) man
	$(Q)$(MAKE) run-ladder
asan: deps
	$(Q)$(MAKE) -j2 all # links.sh reads what is shipped
	$(Q)$(MAKE) -j2 MODE=asan all tests
	$(Q)$(MAKE) MODE=asan run-ladder
demo: deps
	$(Q)$(MAKE) -j2 all
	$(Q)BUILD=$(CURDIR)/$(B) tests/incidents/demo
# Public incidents, each under the policy that should have stood and without the rule that stops it.
incidents: deps
	$(Q)$(MAKE) -j2 all tests
	$(Q)BUILD=$(CURDIR)/$(B) prove --merge --failures --comments -e '' tests/incidents/incidents.t
# Small operational tasks by which the loop is measured: recorded conversations, or MODEL=PROVIDER:NAME with BASE_URL,
# KEY_FILE, REPEAT, TASKS="NAME ...", JSON=FILE (docs/tasks.md).
tasks: deps
	$(Q)$(MAKE) -j2 all
	$(Q)BUILD=$(CURDIR)/$(B) tests/tasks/run $(if $(MODEL),--model $(MODEL)) $(if $(BASE_URL),--base-url $(BASE_URL)) \
		$(if $(KEY_FILE),--key-file $(KEY_FILE)) $(if $(REPEAT),--repeat $(REPEAT)) $(if $(JSON),--json $(JSON)) $(TASKS)
# T seconds for each target, from the committed corpus; new inputs stay in build/.
fuzz: deps
	$(Q)$(MAKE) -j2 CC=clang MODE=fuzz $(FUZZ:%=build/clang-fuzz/%)
	$(Q)for f in $(FUZZ); do mkdir -p build/corpus/$$f; echo "== $$f"; \
		build/clang-fuzz/$$f -max_total_time=$(or $(T),60) -max_len=8192 -rss_limit_mb=2048 -timeout=10 \
		build/corpus/$$f tests/fuzz/corpus/$$f 2>&1 | tail -3 || exit 1; done
bench: deps
	$(Q)$(MAKE) -j2 all $(BENCH)
	$(Q)for b in $(sort $(wildcard tests/bench/[0-9]*)); do BUILD=$(CURDIR)/$(B) $$b || exit 1; done
# The ladder's longest tests with many times the rounds.
soak: deps
	$(Q)$(MAKE) -j2 all tests
	$(Q)BUILD=$(CURDIR)/$(B) MODE=$(MODE) prove --merge --timer --failures --comments -e '' $(sort $(wildcard tests/soak/*.t))
CSRC	= $(shell git ls-files '*.c' '*.h' 2>/dev/null)
SHSRC	= $(shell git grep -lE '^\#!/bin/(ba)?sh' 2>/dev/null)
# Two calls at a time, each of one file; the shell is there to drop "N warnings generated".
TIDY	= clang-tidy --quiet --warnings-as-errors="*" --checks="-*,clang-analyzer-*,bugprone-*,-bugprone-easily-swappable-parameters,-bugprone-reserved-identifier,-bugprone-assignment-in-if-condition,-bugprone-implicit-widening-of-multiplication-result,-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling"
# Right as they stand: covert channels, libpg_query's "larg", the field TE, and words cut in tests.
WORDS	= nown,2st,swith,keypair,strat,covert,larg,te,wit,delet,alph,hel,temprature
TEXTS	= $(filter-out tests/fuzz/corpus/% %.json %.tbl %.pem,$(shell git ls-files 2>/dev/null))
lint: deps $(B)/agent/sandbox/filter_bpf.h
	clang-format --dry-run -Werror $(CSRC)
	cppcheck --quiet --enable=warning,portability,performance --inline-suppr --error-exitcode=1 --std=c11 \
		--suppress=unknownMacro --include=/usr/include/$(MULTI)/sys/queue.h -I. -D_GNU_SOURCE $(filter-out tests/%,$(CSRC))
	$(Q)printf '%s\n' $(filter-out tests/%,$(filter %.c,$(CSRC))) | xargs -P2 -I{} sh -c '$(TIDY) {} -- $(STD) -I. -I$(B) 2>/dev/null'
	shellcheck -x $(SHSRC)
	codespell -q 3 -L $(WORDS) --ignore-regex='\\[nt]' $(TEXTS)
# The Model Context Protocol's conformance suite, Inspector and the SDKs' clients, from npm.
interop-mcp: deps
	$(Q)$(MAKE) -j2 all tests
	$(Q)BUILD=$(CURDIR)/$(B) prove --merge --timer --failures --comments -e '' $(sort $(filter tests/interop/mcp-%,$(INTEROP)))
# E2B's own SDKs from npm, unmodified, against sandboxd.
interop-e2b: deps
	$(Q)$(MAKE) -j2 all tests
	$(Q)BUILD=$(CURDIR)/$(B) prove --merge --timer --failures --comments -e '' $(sort $(filter tests/interop/e2b-%,$(INTEROP)))
# Agents and frameworks that people use, from npm, wrapped; some are under licences that are not open.
interop-agents: deps
	$(Q)$(MAKE) -j2 all tests
	$(Q)BUILD=$(CURDIR)/$(B) prove --merge --timer --failures --comments -e '' $(sort $(AGENTS))
cover: deps
	$(Q)$(MAKE) -j2 MODE=cov all tests
	$(Q)$(MAKE) MODE=cov run-ladder || true
	gcovr -r . --object-directory build/gcc-cov -e tests/ --print-summary | tail -60
# A minimal Debian 12 root made by debootstrap, in a mount namespace of its own: `make check` and
# `make demo` from a clean clone, on a machine that has none of the packages.
fresh: ; $(Q)tests/fresh.sh
MAN	= $(patsubst docs/man/%.scd,build/man/%,$(wildcard docs/man/*.scd))
man: $(MAN)
build/man/%: docs/man/%.scd
	@mkdir -p $(@D)
	$(call say,SCD,$<)scdoc < $< > $@ && mandoc -T lint -W error $@
PREFIX	?= /usr
install: all man
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/libexec/cofferdam
	install -m 0755 $(B)/cofferdam $(DESTDIR)$(PREFIX)/bin/
	install -m 0755 $(filter-out $(B)/cofferdam,$(PROGS:%=$(B)/%)) $(DESTDIR)$(PREFIX)/libexec/cofferdam/
	for m in $(MAN); do s=$${m##*.}; install -d $(DESTDIR)$(PREFIX)/share/man/man$$s; \
		install -m 0644 $$m $(DESTDIR)$(PREFIX)/share/man/man$$s/; done
	install -d $(DESTDIR)$(PREFIX)/share/cofferdam/profiles $(DESTDIR)$(PREFIX)/lib/systemd/system
	install -m 0644 profiles/*.json $(DESTDIR)$(PREFIX)/share/cofferdam/profiles/
	install -m 0644 docs/cofferdam.service $(DESTDIR)$(PREFIX)/lib/systemd/system/

compile_commands.json: ; $(Q)bear -- $(MAKE) -B all
clean: ; rm -rf build
.PHONY: all tests layers unit run-ladder deps check asan demo incidents tasks interop-mcp interop-e2b interop-agents fuzz bench soak lint cover fresh man install clean
# Keep the objects of tests; .SECONDARY would let a missing object of a library pass for made.
.PRECIOUS: $(B)/%.o
-include $(shell find $(B) -name '*.d' 2>/dev/null)
