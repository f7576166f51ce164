/*
 * QEMU plugin: how often a cache line goes from one node to another.
 *
 * Every line of 64 bytes has a state as with infinite caches (MSI): who holds it modified, and who shares it. A load of
 * a line that another CPU holds modified is one transfer; a store is one for every other CPU that has the line. Only
 * user-mode accesses are seen, loads and stores alike, by physical address.
 *
 * Arguments: out=FILE, per_node=N (CPUs per node, in order), memory_mb=M. The guest says what it is doing by a store
 * into the page MAGIC: at offset 8 * phase a phase begins, at offset 0 nothing is counted. Needs `-accel
 * tcg,thread=single`: there are no locks.
 *
 * At the end FILE has a line per phase, `phase accesses same_node cross_node`, the lines of memory that crossed most
 * often, `line phase virtual_address crossings`, and `lost N`, accesses within phases to addresses beyond all
 * memory.
 *
 * The prototypes are those of the plugin interface, version 1 (QEMU 4.2 and later), so no header is needed.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t plugin_id;
typedef uint32_t meminfo;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, void (*)(unsigned, meminfo, uint64_t, void *), int,
                                      int, void *);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(meminfo, uint64_t);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *);
bool qemu_plugin_mem_is_store(meminfo);
void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);

EXPORT int qemu_plugin_version = 1;

enum { NO_REGISTERS = 0, LOADS_AND_STORES = 3, CPUS = 16, PHASES = 64, TOP = 12 };
#define MAGIC UINT64_C(0x5ca1ab1e000)
#define PAGE_MASK UINT64_C(0xfff)
/* First address that is not user-mode's. */
#define USER_END (UINT64_C(1) << 47)

struct line {
    uint64_t address;   /* virtual, of the last crossing */
    uint32_t crossings; /* in the current phase */
    uint16_t sharers;   /* a bit per CPU */
    uint8_t modified;   /* CPU + 1, or 0 */
};

struct phase {
    uint64_t accesses, same_node, cross_node;
    struct line top[TOP];
};

static struct line *lines;
static uint64_t line_count, lost;
/* Numbers of the lines that have crossed in the current phase. */
static uint32_t *crossed;
static size_t crossed_count, crossed_room;
static struct phase phases[PHASES];
static unsigned current, per_node = 1;
static char *out_path;

static void remember(struct line *line)
{
    if (crossed_count == crossed_room) {
        crossed_room = crossed_room ? 2 * crossed_room : 4096;
        crossed = realloc(crossed, crossed_room * sizeof *crossed);
        if (!crossed)
            abort();
    }
    crossed[crossed_count++] = (uint32_t)(line - lines);
}

static void count(struct line *line, unsigned from, unsigned to, uint64_t address)
{
    if (from / per_node == to / per_node) {
        phases[current].same_node++;
    } else {
        phases[current].cross_node++;
        line->address = address;
        if (line->crossings++ == 0)
            remember(line);
    }
}

/* The most crossed lines of a phase that ends, most crossed first; all counts begin again. */
static void close_phase(void)
{
    struct line *top = phases[current].top;
    for (size_t i = 0; i < crossed_count; i++) {
        struct line *line = &lines[crossed[i]];
        int at = TOP;
        while (at > 0 && line->crossings > top[at - 1].crossings)
            at--;
        if (at < TOP) {
            memmove(&top[at + 1], &top[at], (TOP - 1 - at) * sizeof *top);
            top[at] = *line;
        }
        line->crossings = 0;
    }
    crossed_count = 0;
}

static void access_memory(unsigned cpu, meminfo info, uint64_t address, void *data)
{
    (void)data;
    if (address >= USER_END || cpu >= CPUS)
        return;
    if ((address & ~PAGE_MASK) == MAGIC) {
        unsigned next = (address & PAGE_MASK) / 8;
        if (qemu_plugin_mem_is_store(info) && next < PHASES) {
            if (current)
                close_phase();
            current = next;
        }
        return;
    }
    struct qemu_plugin_hwaddr *hardware = qemu_plugin_get_hwaddr(info, address);
    if (!hardware || qemu_plugin_hwaddr_is_io(hardware))
        return;
    uint64_t number = qemu_plugin_hwaddr_phys_addr(hardware) >> 6;
    if (number >= line_count) {
        lost += current != 0;
        return;
    }
    struct line *line = &lines[number];
    uint16_t own = (uint16_t)(1u << cpu);
    /* States are kept outside of phases, too; transfers are not counted there. */
    phases[current].accesses++;
    if (qemu_plugin_mem_is_store(info)) {
        if (line->modified == cpu + 1 && line->sharers == own)
            return;
        for (unsigned other = 0; current && other < CPUS; other++)
            if (other != cpu && (line->sharers >> other & 1))
                count(line, other, cpu, address);
        line->modified = cpu + 1;
        line->sharers = own;
    } else if (!(line->sharers & own)) {
        if (line->modified) {
            if (current)
                count(line, line->modified - 1, cpu, address);
            line->modified = 0;
        }
        line->sharers |= own;
    }
}

static void translate(plugin_id id, struct qemu_plugin_tb *block)
{
    (void)id;
    size_t instructions = qemu_plugin_tb_n_insns(block);
    for (size_t i = 0; i < instructions; i++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, i);
        if (qemu_plugin_insn_vaddr(instruction) < USER_END)
            qemu_plugin_register_vcpu_mem_cb(instruction, access_memory, NO_REGISTERS, LOADS_AND_STORES, NULL);
    }
}

static void finish(plugin_id id, void *data)
{
    (void)id;
    (void)data;
    FILE *out = fopen(out_path, "w");
    if (!out) {
        perror(out_path);
        return;
    }
    for (unsigned i = 1; i < PHASES; i++) {
        struct phase *phase = &phases[i];
        if (!phase->accesses)
            continue;
        fprintf(out, "%u %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", i, phase->accesses, phase->same_node,
                phase->cross_node);
        for (struct line *line = phase->top; line < phase->top + TOP && line->crossings; line++)
            fprintf(out, "line %u %#" PRIx64 " %" PRIu32 "\n", i, line->address, line->crossings);
    }
    fprintf(out, "lost %" PRIu64 "\n", lost);
    fclose(out);
}

EXPORT int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
    (void)info;
    for (int i = 0; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (!value) {
            fprintf(stderr, "transfers: argument %s has no value\n", argv[i]);
            return -1;
        }
        size_t name = (size_t)(value++ - argv[i]);
        if (!strncmp(argv[i], "out", name)) {
            out_path = strdup(value);
        } else if (!strncmp(argv[i], "per_node", name)) {
            per_node = (unsigned)strtoul(value, NULL, 10);
        } else if (!strncmp(argv[i], "memory_mb", name)) {
            /* What QEMU 7.2 calls the physical address is, for a node's memory, its offset among all memory plus its
             * offset in the address space: unique, and less than twice the amount. */
            line_count = strtoull(value, NULL, 10) << 20 >> 5;
        } else {
            fprintf(stderr, "transfers: unknown argument %s\n", argv[i]);
            return -1;
        }
    }
    if (!out_path || !per_node || !line_count || !(lines = calloc(line_count, sizeof *lines))) {
        fprintf(stderr, "transfers: out, per_node and memory_mb are needed\n");
        return -1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    qemu_plugin_register_atexit_cb(id, finish, NULL);
    return 0;
}
