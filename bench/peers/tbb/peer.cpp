// The oneTBB arm: a program that takes samples when told to, so that it can be interleaved with pools of another
// process.
// Protocol: see bench/README.md, "Programs in other languages".
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_invoke.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>
#include <oneapi/tbb/version.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

using u64 = std::uint64_t;
namespace tbb_ = oneapi::tbb;

static const u64 COUNT = (1u << 24) - 1;

static inline u64 token(u64 i) {
    u64 x = (i + 1) * 0x9E3779B97F4A7C15ull;
    x ^= x >> 32;
    x *= 0xD6E8FEB86659FD93ull;
    return (x & ~COUNT) | 1;
}

static inline void spin(u64 steps) {
    u64 x = steps;
    for (u64 k = 0; k < steps; ++k) {
        x = x * 6364136223846793005ull + 1442695040888963407ull;
        asm volatile("" : "+r"(x));
    }
}

static u64 now_ns() {
    auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

struct Usage {
    u64 cpu, switches, system;
};
static Usage usage() {
    rusage r;
    getrusage(RUSAGE_SELF, &r);
    auto ns = [](timeval t) { return u64(t.tv_sec) * 1000000000 + u64(t.tv_usec) * 1000; };
    return {ns(r.ru_utime) + ns(r.ru_stime), u64(r.ru_nvcsw + r.ru_nivcsw), ns(r.ru_stime)};
}

static void futex(std::atomic<std::uint32_t>& word, int op, std::uint32_t value) {
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), op | FUTEX_PRIVATE_FLAG, value, nullptr);
}

struct alignas(128) Line {
    std::atomic<u64> word{0};
};

// What the bodies of one sample share.
struct Run {
    Line word, target;
    alignas(128) std::atomic<std::uint32_t> done{0};
    u64 fast = 0, slow = 0, slow_every = 0;
    std::vector<u64> slots;
    std::vector<Line> own;

    void hit(u64 t) {
        u64 before = word.word.fetch_add(t, std::memory_order_acq_rel);
        if ((before & COUNT) + 1 == target.word.load(std::memory_order_relaxed)) {
            done.store(1, std::memory_order_release);
            futex(done, FUTEX_WAKE, 1);
        }
    }
    void hit_own(u64 t) {
        auto& mine = own[std::size_t(tbb_::this_task_arena::current_thread_index())].word;
        mine.store(mine.load(std::memory_order_relaxed) + t, std::memory_order_release);
    }
    u64 own_sum() {
        u64 sum = 0;
        for (auto& l : own) sum += l.word.load(std::memory_order_acquire);
        return sum;
    }
    u64 steps(u64 i) const { return slow_every != 0 && i % slow_every == slow_every - 1 ? slow : fast; }
    void expect(u64 n) {
        done.store(0, std::memory_order_relaxed);
        target.word.store(n, std::memory_order_relaxed);
    }
    void wait() {
        while (done.load(std::memory_order_acquire) == 0) futex(done, FUTEX_WAIT, 0);
    }
    // Looks again when half of the time that seems to be left has passed, and no later than after a quarter of what
    // has passed already.
    void wait_own(u64 tasks) {
        u64 start = now_ns();
        for (;;) {
            u64 ran = own_sum() & COUNT;
            if (ran >= tasks) return;
            double passed = double(now_ns() - start);
            double left = std::min(passed * double(tasks - ran) / double(std::max<u64>(ran, 1)) / 2, passed / 4);
            usleep(useconds_t(std::min(std::max(left / 1000, 20.0), 5000.0)));
        }
    }
};

struct Node {
    u64 value;
    std::unique_ptr<Node> left, right;
};
// Level by level: depth first, the order of allocation would favour one order of walking.
static std::unique_ptr<Node> build(u64 levels) {
    std::size_t nodes = (std::size_t(2) << levels) - 1;
    std::vector<std::unique_ptr<Node>> row;
    for (std::size_t i = 0; i < nodes; ++i) {
        row.push_back(std::make_unique<Node>());
        row.back()->value = token(i);
    }
    for (std::size_t i = nodes / 2; i-- > 0;) {
        row[i]->left = std::move(row[2 * i + 1]);
        row[i]->right = std::move(row[2 * i + 2]);
    }
    return std::move(row[0]);
}
static u64 walk(const Node* n, u64 steps) {
    u64 a = 0, b = 0;
    if (n->left) {
        tbb_::parallel_invoke([&a, n, steps] { a = walk(n->left.get(), steps); },
                              [&b, n, steps] { b = walk(n->right.get(), steps); });
    }
    if (steps != 0) {
        spin(steps);
        // Without this the chains of several nodes overlap.
        asm volatile("lfence" ::: "memory");
    }
    return a + b + n->value;
}

struct Pool {
    tbb_::global_control limit;
    // All threads of the first arena are workers: the submitter is not one of them. In the second the caller works too.
    tbb_::task_arena arena, joining;
    tbb_::task_group group;
    explicit Pool(int workers)
        : limit(tbb_::global_control::max_allowed_parallelism, std::size_t(workers) + 1),
          arena(workers, 0),
          joining(workers, 1) {}
};

static void grow(Pool* pool, Run* run, u64 i, u64 levels, bool own) {
    if (levels > 0) {
        for (u64 child = 4 * i + 1; child < 4 * i + 5; ++child) {
            if (own) {
                pool->group.run([pool, run, child, levels] { grow(pool, run, child, levels - 1, true); });
            } else {
                pool->group.run([pool, run, child, levels] { grow(pool, run, child, levels - 1, false); });
            }
        }
    }
    own ? run->hit_own(token(i)) : run->hit(token(i));
}

static void submit(Pool* pool, Run* run, const std::string& kind, u64 i, u64 tasks, u64 levels, bool timed) {
    if (kind == "nested") {
        pool->arena.enqueue([pool, run, i, tasks] {
            u64 first = tasks / 5 + 4 * i;
            for (u64 child = first; child < first + 4; ++child) {
                u64 t = token(child);
                pool->group.run([run, child, t] { (void)child, run->hit(t); });
            }
            run->hit(token(i));
        });
    } else if (kind == "deep") {
        pool->arena.enqueue([pool, run, levels] { grow(pool, run, 0, levels, false); });
    } else if (kind == "deep_own") {
        pool->arena.enqueue([pool, run, levels] { grow(pool, run, 0, levels, true); });
    } else if (timed) {
        u64 at = now_ns();
        pool->arena.enqueue([run, i, at] {
            spin(run->steps(i));
            run->slots[i] = now_ns() - at;
            run->hit(token(i));
        });
    } else if (run->fast + run->slow > 0) {
        u64 t = token(i);
        pool->arena.enqueue([run, i, t] { spin(run->steps(i)), run->hit(t); });
    } else if (kind == "flat_own") {
        u64 t = token(i);
        pool->arena.enqueue([run, i, t] { (void)i, run->hit_own(t); });
    } else {
        u64 t = token(i);
        pool->arena.enqueue([run, i, t] { (void)i, run->hit(t); });
    }
}

struct Sample {
    u64 wall = 0, gap = 0, cpu = 0, system = 0, switches = 0, word = 0;
};

static Sample sample(Pool* pool, Run* run, const std::string& kind, u64 tasks, u64 submitters, u64 levels,
                     u64 walks, bool timed) {
    Sample out;
    if (kind == "join") {
        static u64 built_levels = ~0ull;
        static std::unique_ptr<Node> root;
        if (built_levels != levels) root = build(levels), built_levels = levels;
        auto before = usage();
        u64 start = now_ns();
        pool->joining.execute([&] {
            for (u64 k = 0; k < walks; ++k) out.word += walk(root.get(), run->fast);
        });
        out.wall = now_ns() - start;
        auto after = usage();
        out.cpu = after.cpu - before.cpu, out.system = after.system - before.system;
        out.switches = after.switches - before.switches;
        return out;
    }
    bool own = kind == "deep_own" || kind == "flat_own";
    u64 calls = kind == "nested" ? tasks / 5 : kind == "deep" || kind == "deep_own" ? 1 : tasks;
    auto phase = [&](u64 from, u64 to) {
        u64 start = now_ns();
        for (u64 i = from; i < to; ++i) submit(pool, run, kind, i, tasks, levels, timed);
        own ? run->wait_own(tasks) : run->wait();
        out.wall += now_ns() - start;
    };
    Usage before, after;
    if (submitters > 1) {
        std::atomic<u64> ready{0}, first{~0ull};
        std::atomic<std::uint32_t> go{0};
        std::vector<std::thread> threads;
        u64 each = tasks / submitters;
        run->expect(tasks);
        for (u64 n = 0; n < submitters; ++n) {
            threads.emplace_back([&, n] {
                ready.fetch_add(1);
                while (go.load() == 0) futex(go, FUTEX_WAIT, 0);
                u64 at = now_ns(), seen = first.load();
                while (at < seen && !first.compare_exchange_weak(seen, at)) {
                }
                for (u64 i = n * each; i < (n + 1) * each; ++i) submit(pool, run, kind, i, tasks, levels, timed);
            });
        }
        while (ready.load() < submitters) usleep(100);
        usleep(1000);
        before = usage();
        go.store(1);
        futex(go, FUTEX_WAKE, 1 << 30);
        own ? run->wait_own(tasks) : run->wait();
        u64 end = now_ns();
        after = usage();
        for (auto& t : threads) t.join();
        out.wall = end - first.load();
    } else {
        before = usage();
        if (kind == "burst") {
            run->expect(calls / 2);
            phase(0, calls / 2);
            u64 slept = now_ns();
            usleep(10000);
            out.gap = now_ns() - slept;
            run->expect(calls);
            phase(calls / 2, calls);
        } else if (kind == "serial") {
            u64 start = now_ns();
            for (u64 i = 0; i < tasks; ++i) {
                run->expect(i + 1);
                submit(pool, run, kind, i, tasks, levels, false);
                run->wait();
            }
            out.wall = now_ns() - start;
        } else {
            run->expect(tasks);
            phase(0, calls);
        }
        after = usage();
    }
    out.cpu = after.cpu - before.cpu, out.system = after.system - before.system;
    out.switches = after.switches - before.switches;
    pool->arena.execute([&] { pool->group.wait(); });
    usleep(1000);
    out.word = own ? run->own_sum() : run->word.word.load();
    return out;
}

// Waits until every slot is marked. Its instructions are left out of the count, by this name.
__attribute__((noinline)) static u64 uncounted_settle(volatile u64* at, u64 tasks) {
    u64 ran = 0;
    for (int round = 0; ran < tasks && round < 1200; ++round) {
        usleep(100000);
        ran = 0;
        for (u64 i = 0; i < tasks; ++i) ran += at[i] == i + 1;
    }
    return ran;
}

// One path of the counts, meant to be run under callgrind: `peer count PATH TASKS`.
static int count(const std::string& path, u64 tasks) {
    Pool pool(1);
    // Fresh pages of the kernel's: clearing the slots here would be counted once per task.
    u64* at = static_cast<u64*>(std::calloc(tasks, sizeof(u64)));
    if (path == "external") {
        for (u64 i = 0; i < tasks; ++i) {
            pool.arena.enqueue([at, i, tasks] { (void)tasks, at[i] = i + 1; });
        }
    } else if (path == "nested") {
        struct Chain {
            static void next(Pool* p, u64* at, u64 i, u64 n) {
                if (i + 5 < n) p->group.run([p, at, i, n] { next(p, at, i + 5, n); });
                for (u64 k = i + 1; k < i + 5; ++k) p->group.run([at, k, n] { (void)n, at[k] = k + 1; });
                at[i] = i + 1;
            }
        };
        pool.arena.enqueue([&pool, at, tasks] { Chain::next(&pool, at, 0, tasks); });
    } else {
        struct Fib {
            static u64 of(u64 n) {
                if (n < 2) return n;
                u64 a, b;
                tbb_::parallel_invoke([&a, n] { a = of(n - 1); }, [&b, n] { b = of(n - 2); });
                return a + b;
            }
        };
        u64 got = 0;
        pool.joining.execute([&] { got = Fib::of(tasks); });
        std::printf("{\"fib\":%llu}\n", (unsigned long long)got);
        return 0;
    }
    u64 ran = uncounted_settle(at, tasks);
    std::printf("{\"ran\":%llu}\n", (unsigned long long)ran);
    std::fflush(stdout);
    _exit(ran == tasks ? 0 : 1);
}

int main(int argc, char** argv) {
    if (argc == 4 && !std::strcmp(argv[1], "count")) return count(argv[2], std::strtoull(argv[3], nullptr, 10));
    if (argc != 2) return std::fprintf(stderr, "usage: peer WORKERS | peer count PATH TASKS\n"), 2;
    Pool pool(std::atoi(argv[1]));
    std::printf("{\"ready\":\"tbb\",\"version\":\"%s\"}\n", TBB_runtime_version());
    std::fflush(stdout);
    char kind[32];
    unsigned long long seq, tasks, submitters, levels, walks, fast, slow, slow_every;
    int timed;
    const char* request = " run %llu %31s %llu %llu %llu %llu %llu %llu %llu %d";
    while (std::scanf(request, &seq, kind, &tasks, &submitters, &levels, &walks, &fast, &slow, &slow_every, &timed) ==
           10) {
        Run run;
        run.fast = fast, run.slow = slow, run.slow_every = slow_every;
        run.slots.resize(timed ? tasks : 0);
        run.own = std::vector<Line>(std::size_t(std::atoi(argv[1])) + 2);
        auto s = sample(&pool, &run, kind, tasks, submitters, levels, walks, timed != 0);
        auto number = [](const char* name, u64 n) { std::printf("\"%s\":%llu,", name, (unsigned long long)n); };
        std::printf("{");
        number("seq", seq), number("wall_ns", s.wall), number("gap_ns", s.gap), number("cpu_ns", s.cpu);
        number("system_ns", s.system);
        number("switches", s.switches), number("word", s.word);
        std::printf("\"allocations\":null");
        if (timed) {
            std::sort(run.slots.begin(), run.slots.end());
            auto rank = [&](u64 percent) { return std::max<u64>((tasks * percent + 99) / 100, 1) - 1; };
            auto at = [&](u64 percent) { return (unsigned long long)run.slots[rank(percent)]; };
            std::printf(",\"latency\":[%llu,%llu,%llu,%llu]", at(50), at(95), at(99), at(100));
        } else {
            std::printf(",\"latency\":null");
        }
        std::printf("}\n");
        std::fflush(stdout);
    }
    return 0;
}
