/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_NUMBERS_H_INCLUDED
#define TOPO_NUMBERS_H_INCLUDED

/* All numbers that predictions, cutting of calls and selection go by, and that a site does not
 * tell. Each is a published figure, a bound of the implementation, or says how much work a
 * prediction may be. */

/* -- costs that were not measured (topo_rates.c) -- */

/* LogGP parameters of InfiniBand and Ethernet are between a sixth and a third (Hoefler, Lichei,
 * Rehm: Low-Overhead LogGP Parameter Assessment, 2007) */
#define TOPO_OVERHEAD_SHARE 4   /* latency of a short message over overhead at each end */
/* MVAPICH publishes 0.25 us inside a host, and 1.1 us over InfiniBand */
#define TOPO_INSIDE_SHARE 4     /* latency in a rack over that in a host */
/* STREAM copy of one core is 10 to 13 GB/s */
#define TOPO_REDUCE_MBPS 80000  /* of a rank that copies, or adds up */
#define TOPO_INSIDE_MBPS 40000  /* from rank to rank: two copies */
/* STREAM of a host with two sockets is 190 GB/s, of one core 12 GB/s; a message passes memory three
 * times as often */
#define TOPO_MEMORY_SHARE 4     /* memory of a host over one rank that copies */
/* buffers of libfabric's rxm provider */
#define TOPO_EAGER_BYTES 16384  /* the longest message that is copied at both ends, and does not ask
                                 * its receiver */
/* InfiniBand and TCP have about so many for a packet of 4 KiB */
#define TOPO_HEADER_BYTES 64
/* of a communicator without rates: links of 100 Gbit/s, LogGP's overhead and latency of
 * InfiniBand */
#define TOPO_BYTES_PER_US 12500
#define TOPO_OVERHEAD_NS 300
#define TOPO_LATENCY_NS 1000

/* so that integers are within their range */
#define TOPO_MOST_HEADER_BYTES 1e6
#define TOPO_LEAST_MBPS 1.0
#define TOPO_MOST_MBPS 1e7
#define TOPO_MOST_US 1e6
#define TOPO_BOTTLENECK 0.8     /* of the rate inside a group: what is measured above this may be
                                 * noise */

/* -- selection (csel_auto.c, topo_predict.h) -- */

/* Predictions are wrong by 5 % at the 90th percentile (maint/judge sim). How short messages meet is
 * a matter of chance: a part of a latency. */
#define TOPO_GAIN_PERCENT 5     /* topo_auto overrides MPICH only for a predicted saving of more
                                 * than this, */
#define TOPO_GAIN_LATENCY_PERCENT 25    /* and this of the latency of a message */
#define TOPO_TRIED_FACTOR 3     /* adaptation tries what is predicted to take up to so many times as
                                 * long as the best */
#define TOPO_MAX_LG_BYTES 26    /* a longer call is decided as one of 64 MiB: links alone count
                                 * there */
/* Blocks of middling length, for collectives of which each process knows some sizes alone */
#define TOPO_SOME_BYTES 4096
#define TOPO_SOME_ALLTOALLV_BYTES 512

/* -- cutting (topo_catalog_cut.c) -- */

#define TOPO_LEAST_SEGMENT_BYTES 1024   /* the shortest of MPII_Topo_lengths_t, whatever settings
                                         * are */
#define TOPO_MAX_SEGMENTS 16384 /* times the ranks of a linear tree, it is an int */
#define TOPO_SEGMENT_STEP_BYTES 8       /* a segment is a multiple of it: of most elements */
#define TOPO_FIRST_SEGMENT_STEPS 127    /* by so many steps at most the first segment is shorter,
                                         * 1016 bytes */
/* Along lanes short blocks go in rounds; blocks are copied, so that they go together, up to so many
 * bytes in all, or of a block. Of that length a copy costs less than the overheads of a message. */
#define TOPO_ROUNDS_BYTES 512
#define TOPO_JOINED_BYTES (1024 * 1024)
#define TOPO_JOINED_BLOCK_BYTES 1024
/* gather, scatter: blocks that go with their size, whatever the setting is, and pieces of longer
 * ones */
#define TOPO_MIN_SHORT 64
#define TOPO_MAX_SHORT 65536
#define TOPO_PIECES_HELD 16     /* of a rank that passes blocks on: there is memory for so many */
#define TOPO_MIN_PIECE 4096
#define TOPO_MIN_PIECE_OF_RANK 32       /* pieces times ranks are an int, in blocks of up to 64
                                         * GiB */

/* -- how much of a schedule a prediction follows (topo_predict.c, topo_predict_sample.c) -- */

/* At 0.2 to 0.5 us a message, all algorithms of a collective take about a millisecond on 64
 * ranks. */

#define TOPO_MAX_WALK 65536     /* messages that are followed at all */
#define TOPO_COUNTED_RANKS 256  /* tell how many messages there are, */
#define TOPO_FOLLOWED_HOSTS 16  /* and where one rank acts for each host, of so many hosts the
                                 * others are followed */
#define TOPO_FEW_MESSAGES 1024  /* all ranks run up to so many by the clock, */
#define TOPO_FEW_RANKS 32       /* or as the square of their number less this, which is as many on
                                 * 64 ranks, */
#define TOPO_LOG_ROUNDS 4       /* up to so many times log2 of their number in rounds, ranks keep
                                 * step */
#define TOPO_LANES_FACTOR 4     /* along lanes so many times as many: where racks are unequal, ranks
                                 * differ */
/* Of a call in many parts: so many messages of each rank. Twice as many change no choice
 * (maint/judge sim). */
#define TOPO_PIECES 4
#define TOPO_MIN_PIECES 256     /* that are followed: from so many messages */
#define TOPO_MAX_PIECES 4096    /* to so many */
#define TOPO_MAX_STEPS 8192     /* of a sample; */
#define TOPO_MAX_PIPED_STEPS 4096       /* where only their sums count; */
#define TOPO_STEPS_OF_ROUNDS 1024       /* or all ranks do some rounds; */
#define TOPO_MAX_STAGES 128     /* what is beyond is in the last one */
#define TOPO_MIN_HOSTS 4        /* that are sampled, */
#define TOPO_MIN_RANKS 4        /* and ranks of each, up to */
#define TOPO_SAMPLED_FACTOR 4   /* so many times the steps */
#define TOPO_ROUNDS_ASKED 16    /* to see whether all are alike */
#define TOPO_LEAST_ROUNDS 4     /* that are sampled; */
#define TOPO_SOME_ROUNDS 16     /* where they are few steps */

#endif /* TOPO_NUMBERS_H_INCLUDED */
