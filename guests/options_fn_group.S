# options: --fn-group1=[a-z] --fn-group1=one --fn-group1=two
#
# Within a group a call counts as one of the caller's own function: what the other costs is a level of it.
#
#   _start: call, call, exit 3 = 5
#   one: (call, ret) = 2; as its level 2: two, (call, ret) = 2
#   two: called by _start, (call, ret) = 2
#   leaf: 2 * (nop, ret) = 4
#
# Ir: 15 = 5 + 2 + 2 + 2 + 4
# self _start 5
# self one 2
# self one'2 2
# self two 2
# self leaf 4
# call _start one 1 6
# call _start two 1 4
# call one one'2 1 4
# call one'2 leaf 1 2
# call two leaf 1 2
#include "checks.h"
    .text
function _start
    call one
    call two
    exit 0
end _start
function one
    call two
    ret
end one
function two
    call leaf
    ret
end two
function leaf
    nop
    ret
end leaf
    some_data
