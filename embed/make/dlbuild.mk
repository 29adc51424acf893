# Models of dlbuild.yaml in a Makefile; GNU Make 3.81 and later.
#
#   include $(or $(shell dlbuild embed make),$(error dlbuild does not run))
#   $(eval $(call dlbuild_models,board,kws vww))
#   firmware: main.o $(KWS_SOURCES:.c=.o) $(VWW_SOURCES:.c=.o)
#
# The call includes a fragment for each model, which sets <MODEL>_SOURCES, _HEADERS, _PORT, _FOLDER,
# _CPPFLAGS and _LDLIBS. Make brings what it includes up to date first, so the C is there before
# anything is compiled. Call it once for all models of a target: they share its memories.

# Neither this file nor a call sets the default goal.

dlbuild_goal := $(.DEFAULT_GOAL)

DLBUILD ?= dlbuild
# The folder of dlbuild.yaml, and where the C is written.
DLBUILD_FOLDER ?= .
DLBUILD_OUT ?= build/dlbuild
# Options for `dlbuild build`: -D key=value.
DLBUILD_FLAGS ?=
# Goals for which no C is made.
DLBUILD_NOT_FOR ?= clean distclean help

dlbuild_in := $(abspath $(DLBUILD_FOLDER))
dlbuild_out := $(abspath $(DLBUILD_OUT))

# $(call dlbuild_models,<target>,<models>)
define dlbuild_models
dlbuild_goal := $$(.DEFAULT_GOAL)
ifeq ($$(filter $$(DLBUILD_NOT_FOR),$$(MAKECMDGOALS)),)
# Each file keeps its time if its content stays; the stamp has that of the last build.
$(dlbuild_out)/$(1).stamp: $(dlbuild_in)/dlbuild.yaml
	$$(DLBUILD) build -C $(dlbuild_in) -B $(dlbuild_out) --target $(1) --sources $$(DLBUILD_FLAGS) \
	  --stamp $$@ --depfile $$@.d
-include $(dlbuild_out)/$(1).stamp.d
$(foreach model,$(2),$(call dlbuild_model,$(1),$(model)))
endif
.DEFAULT_GOAL := $$(dlbuild_goal)
endef

define dlbuild_model
include $(dlbuild_out)/$(1)/$(2)/$(2).mk
$(dlbuild_out)/$(1)/$(2)/$(2).mk: $(dlbuild_out)/$(1).stamp ;
ifneq ($$(DLBUILD_FILES_$(2)),)
$$(DLBUILD_FILES_$(2)): $(dlbuild_out)/$(1).stamp ;
endif
# A file that is missing is made again, and so are fragments that Make could not read just now.
ifneq ($$(filter-out $$(wildcard $$(DLBUILD_FILES_$(2))),$$(DLBUILD_FILES_$(2)))$$(if $$(DLBUILD_FILES_$(2)),,none),)
$(dlbuild_out)/$(1).stamp: dlbuild_force
endif

endef

.PHONY: dlbuild_force
dlbuild_force:

.DEFAULT_GOAL := $(dlbuild_goal)
