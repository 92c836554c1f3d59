/*
 * Copyright (C) by Argonne National Laboratory
 *     See COPYRIGHT in top-level directory
 */

#ifndef TOPO_NUMBERS_H_INCLUDED
#define TOPO_NUMBERS_H_INCLUDED

/* The numbers of predictions, segment lengths and selection that a site file does not give. Each is
 * a published figure, a bound of the implementation, or a limit of the work of a prediction. */

/* -- defaults of costs that were not measured (topo_rates.c) -- */

/* Measured LogGP overheads of InfiniBand and Ethernet are a sixth to a third of the latency
 * (Hoefler, Lichei, Rehm: Low-Overhead LogGP Parameter Assessment, 2007) */
#define TOPO_OVERHEAD_SHARE 4   /* latency of a short message, divided by the overhead at each end
                                 * */
/* MVAPICH publishes 0.25 us inside a host, and 1.1 us over InfiniBand */
#define TOPO_INSIDE_SHARE 4     /* latency in a rack, divided by the latency in a host */
/* STREAM copy of one core is 10 to 13 GB/s */
#define TOPO_REDUCE_MBPS 80000  /* a rank that copies or adds up */
#define TOPO_INSIDE_MBPS 40000  /* between ranks of a host: two copies */
/* STREAM of a host with two sockets is 190 GB/s, of one core 12 GB/s. A message crosses the memory
 * about three times. */
#define TOPO_MEMORY_SHARE 4     /* rate of a host's memory, divided by that of one rank that copies
                                 * */
/* The buffers of libfabric's rxm provider */
#define TOPO_EAGER_BYTES 16384  /* longest eager message; a longer one uses rendezvous */
/* Headers of InfiniBand and of TCP for a packet of 4 KiB, about */
#define TOPO_HEADER_BYTES 64
/* Without measured rates: links of 100 Gbit/s, and InfiniBand's overhead and latency */
#define TOPO_BYTES_PER_US 12500
#define TOPO_OVERHEAD_NS 300
#define TOPO_LATENCY_NS 1000

/* Limits that keep integers within their range */
#define TOPO_MOST_HEADER_BYTES 1e6
#define TOPO_LEAST_MBPS 1.0
#define TOPO_MOST_MBPS 1e7
#define TOPO_MOST_US 1e6
#define TOPO_BOTTLENECK 0.8     /* an uplink is slow below this share of the rate inside its group;
                                 * above, the difference may be noise */

/* -- selection (csel_auto.c, topo_predict.h) -- */

/* The error of predictions is 5 % at the 90th percentile (maint/judge sim). Short messages also
 * meet by chance on links, which costs a part of a latency. */
/* topo_auto overrides MPICH only for a predicted saving of more than GAIN_PERCENT of the time plus
 * GAIN_LATENCY_PERCENT of the latency of a message. */
#define TOPO_GAIN_PERCENT 5
#define TOPO_GAIN_LATENCY_PERCENT 25
#define TOPO_TRIED_FACTOR 3     /* adaptation tries an algorithm whose predicted time is at most
                                 * this times the shortest */
#define TOPO_MAX_LG_BYTES 26    /* longer calls take the decision for 64 MiB: only links count */
/* Bytes of a block for predictions of collectives whose sizes not all processes know */
#define TOPO_SOME_BYTES 512

/* -- exchanges (topo_order.c) -- */

/* Levels exchange at once only if that is predicted to save more than a tenth of the time. Up to
 * that, what the times leave out decides: the overhead of receivers and sums, 2 us of 20 in
 * topo-sim. */
#define TOPO_MERGE_SHARE 9      /* time, divided by what is added to that of merged levels */

/* -- cutting (topo_catalog_cut.c) -- */

#define TOPO_LEAST_SEGMENT_BYTES 1024   /* shortest segment: the shortest of MPII_Topo_lengths_t */
#define TOPO_MAX_SEGMENTS 16384 /* segments times ranks of a linear tree fit into an int */
#define TOPO_SEGMENT_STEP_BYTES 8       /* segments are multiples of it, as most elements are */
#define TOPO_FIRST_SEGMENT_STEPS 127    /* the first segment is at most this number of steps (1016
                                         * bytes) shorter */
/* Lanes: up to ROUNDS_BYTES a rank, messages go in rounds. Up to JOINED_BYTES in all, or
 * JOINED_BLOCK_BYTES a block, blocks are copied and sent together: a copy of that length costs less
 * than the overhead of a message. */
#define TOPO_ROUNDS_BYTES 512
#define TOPO_JOINED_BYTES (1024 * 1024)
#define TOPO_JOINED_BLOCK_BYTES 1024
/* Gather and scatter: limits of the longest block that travels with its size, and the shortest
 * piece of longer blocks */
#define TOPO_MIN_SHORT 64
#define TOPO_MAX_SHORT 65536
#define TOPO_PIECES_HELD 16     /* pieces for which a rank that forwards blocks has memory */
#define TOPO_MIN_PIECE 4096
#define TOPO_MIN_PIECE_OF_RANK 32       /* pieces times ranks fit into an int for blocks of up to 64
                                         * GiB */

/* -- limits of the work of a prediction (topo_predict.c, topo_predict_sample.c) --
 *
 * A simulated message takes 0.2 to 0.5 us. With these limits all algorithms of a collective take
 * about a millisecond on 64 ranks. */

#define TOPO_MAX_WALK 65536     /* most messages of a simulation */
#define TOPO_COUNTED_RANKS 256  /* ranks whose messages are counted to estimate the number of all */
#define TOPO_FOLLOWED_HOSTS 16  /* where one rank acts for each host: hosts on which the other ranks
                                 * are simulated, too */
/* A schedule whose ranks do not run in lockstep is simulated up to FEW_MESSAGES messages, or up to
 * the square of the number of ranks minus FEW_RANKS, which is the same number on 64 ranks; for
 * lanes up to LANES_FACTOR times that, because ranks differ if racks are unequal. Longer schedules
 * are sampled. */
#define TOPO_FEW_MESSAGES 1024
#define TOPO_FEW_RANKS 32
#define TOPO_LANES_FACTOR 4
#define TOPO_LOG_ROUNDS 4       /* ranks run in lockstep if each receives at most this times log2 p
                                 * messages */
/* Of a call in many parts only the first are simulated: PIECES messages of each rank, but at least
 * MIN_PIECES and at most MAX_PIECES messages in all. Twice as many change no choice (maint/judge
 * sim). */
#define TOPO_PIECES 4
#define TOPO_MIN_PIECES 256
#define TOPO_MAX_PIECES 4096
/* Most steps of a sample: in general; if only sums of times count; if some rounds of all ranks are
 * sampled */
#define TOPO_MAX_STEPS 8192
#define TOPO_MAX_PIPED_STEPS 4096
#define TOPO_STEPS_OF_ROUNDS 1024
#define TOPO_MAX_STAGES 128     /* stages of a sample; the last one has all that follow */
#define TOPO_MIN_HOSTS 4        /* fewest hosts of a sample */
#define TOPO_MIN_RANKS 4        /* fewest ranks of each host, within SAMPLED_FACTOR times the steps
                                 * */
#define TOPO_SAMPLED_FACTOR 4
#define TOPO_ROUNDS_ASKED 16    /* rounds that show whether a rank sends in each round */
#define TOPO_LEAST_ROUNDS 4     /* fewest rounds of a sample, */
#define TOPO_SOME_ROUNDS 16     /* and its rounds if they have few steps */

#endif /* TOPO_NUMBERS_H_INCLUDED */
