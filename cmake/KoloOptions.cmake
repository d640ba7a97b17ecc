# Flags that every Kolo target is compiled with; linked privately as kolo_options.
add_library(kolo_options INTERFACE)
target_compile_options(kolo_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wno-unused-parameter)
if(KOLO_SANITIZE)
  string(REPLACE ";" "," sanitizers "${KOLO_SANITIZE}")
  add_compile_options(-fsanitize=${sanitizers} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${sanitizers})
endif()
