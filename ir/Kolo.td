include "ChoreographyOps.td"
include "ChannelOps.td"
