# kolo_add_skip(NAME LABEL REASON): what cannot be built here, as a test that counts as skipped. A reason that packages would
# mend ends in `(Debian: PACKAGE...)`: see tests/support/print_skips.py.
function(kolo_add_skip name label reason)
  add_test(NAME ${name} COMMAND sh -c "echo 'skipped: ${reason}'; exit 77")
  set_tests_properties(${name} PROPERTIES LABELS ${label} SKIP_RETURN_CODE 77)
endfunction()

# kolo_add_test_groups(NAME TARGET LABEL label [GROUPS number] [FILTER filter] [PROCESSORS number] [TIMEOUT seconds]
#                      [ENVIRONMENT variable=value...])
# The cases of a GoogleTest program as so many tests NAME.1, NAME.2, ...: for cases whose start would take longer than they
# do. A prime number deals the cases of each kind evenly. One case: TARGET --gtest_filter=CASE.
function(kolo_add_test_groups name target)
  cmake_parse_arguments(PARSE_ARGV 2 group "" "LABEL;GROUPS;FILTER;PROCESSORS;TIMEOUT" "ENVIRONMENT")
  foreach(option_default GROUPS=1 FILTER=* PROCESSORS=1 TIMEOUT=300)
    string(REGEX MATCH "^([A-Z]+)=(.*)$" ignored ${option_default})
    if(NOT DEFINED group_${CMAKE_MATCH_1})
      set(group_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
    endif()
  endforeach()
  foreach(number RANGE 1 ${group_GROUPS})
    math(EXPR index "${number} - 1")
    add_test(NAME ${name}.${number} COMMAND ${target} --gtest_filter=${group_FILTER})
    set_tests_properties(${name}.${number} PROPERTIES LABELS ${group_LABEL} PROCESSORS ${group_PROCESSORS}
      TIMEOUT ${group_TIMEOUT}
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${group_GROUPS};GTEST_SHARD_INDEX=${index};${group_ENVIRONMENT}")
  endforeach()
endfunction()

# kolo_compile_tests_fast(FOLDER): without optimisation the programs of tests compile in half of the time. Not those that have the
# property KOLO_WORKS, and none under sanitizers: they would run longer than that saves.
function(kolo_compile_tests_fast folder)
  if(KOLO_SANITIZE)
    return()
  endif()
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    get_target_property(works ${target} KOLO_WORKS)
    if(type STREQUAL EXECUTABLE AND works)
      target_compile_options(${target} PRIVATE -g0)
    elseif(type STREQUAL EXECUTABLE)
      target_compile_options(${target} PRIVATE ${kolo_fast_flags})
    endif()
  endforeach()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(each ${folders})
    kolo_compile_tests_fast(${each})
  endforeach()
endfunction()
