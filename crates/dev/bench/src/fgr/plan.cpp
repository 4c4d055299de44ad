// The strict rule, the balanced optimum by the sinks' rents, and the loads of all links in plain C++: the
// algorithms of finerail-fgr, for comparison.
//
// Standard input: numbers, in the order in which `read` takes them. Standard output, for each of the two
// policies: the fastest round in nanoseconds, then a checksum of the loads of writes and of reads.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

using std::size_t;

static const uint16_t NONE = 0xffff;
static const size_t CHOICES = 3;                // of the strict rule: a primary and two backups

static long number() {
    long value;
    if (std::scanf("%ld", &value) != 1) std::exit(2);
    return value;
}

struct Dimension { int size; bool wrap; int stride; int cost; };
struct Router { int vertex; int net; uint16_t index; };
struct Module { int home; std::vector<Router> routers; };
struct Group {
    bool metadata;
    std::vector<int> nets;
    std::vector<int> window;                    // sub-group by position along the windowed dimension
    std::vector<std::vector<Module>> sub_groups;
};

// Nets whose routers stand at the same places, and the routers of each net by slot.
struct Share {
    int group;
    std::vector<int> nets, places;
    std::vector<std::vector<uint16_t>> routers;
};

// Clients at one vertex with the same routers: the vertex and their number.
typedef std::vector<std::pair<int, int>> Rows;

struct Machine {
    std::vector<Dimension> dimensions;
    int window, near, vertices, nets;
    Rows sites;
    std::vector<uint32_t> site_of;              // by client
    std::vector<Share> shares;
    std::vector<Group> groups;
    std::vector<int> router_vertex;
    std::vector<int> data_nets;                 // in the order in which streams are told

    int position(int vertex, int d) const { return vertex / dimensions[d].stride % dimensions[d].size; }
    int distance(int d, int a, int b) const {
        int direct = std::abs(a - b);
        return dimensions[d].wrap ? std::min(direct, dimensions[d].size - direct) : direct;
    }
};

static Machine read() {
    Machine m;
    m.dimensions.resize(number());
    for (auto &d : m.dimensions) { d.size = number(); d.wrap = number(); d.cost = number(); }
    m.vertices = 1;
    for (size_t d = m.dimensions.size(); d-- > 0;) {
        m.dimensions[d].stride = m.vertices;
        m.vertices *= m.dimensions[d].size;
    }
    m.window = number();
    m.near = number();
    m.sites.resize(number());
    for (auto &site : m.sites) { site.first = number(); site.second = number(); }
    m.nets = number();
    m.groups.resize(number());
    for (auto &group : m.groups) {
        group.metadata = number();
        group.nets.resize(number());
        for (auto &net : group.nets) net = number();
        group.window.resize(m.dimensions[m.window].size);
        for (auto &sub_group : group.window) sub_group = number();
        group.sub_groups.resize(number());
        for (auto &modules : group.sub_groups) {
            modules.resize(number());
            for (auto &module : modules) {
                module.home = number();
                module.routers.resize(number());
                for (auto &router : module.routers) {
                    router.vertex = number();
                    router.net = number();
                    router.index = uint16_t(m.router_vertex.size());
                    m.router_vertex.push_back(router.vertex);
                }
            }
        }
    }
    m.data_nets.resize(number());
    for (auto &net : m.data_nets) net = number();
    m.site_of.resize(number());
    for (auto &site : m.site_of) site = number();
    m.shares.resize(number());
    for (auto &share : m.shares) {
        share.group = number();
        share.places.resize(number());
        for (auto &place : share.places) place = number();
        share.nets.resize(number());
        for (auto &net : share.nets) {
            net = number();
            share.routers.emplace_back(share.places.size());
            for (auto &router : share.routers.back()) router = number();
        }
    }
    return m;
}

// The routers of the first modules on a net, one of each module.
static void choose(const std::vector<const Module *> &modules, int net, uint16_t *cell) {
    size_t chosen = 0;
    for (const Module *module : modules) {
        for (const Router &router : module->routers) {
            if (router.net == net && chosen < CHOICES) { cell[chosen++] = router.index; break; }
        }
    }
}

static void metadata(const Machine &m, const Group &group, std::vector<uint16_t> &cells) {
    std::vector<const Module *> modules;
    for (auto &sub_group : group.sub_groups) for (auto &module : sub_group) modules.push_back(&module);
    std::vector<std::pair<int, const Module *>> order(modules.size());
    for (size_t row = 0; row < m.sites.size(); ++row) {
        for (size_t i = 0; i < modules.size(); ++i) {
            int cost = 0;
            for (size_t d = 0; d < m.dimensions.size(); ++d)
                cost += m.dimensions[d].cost
                    * m.distance(d, m.position(m.sites[row].first, d), m.position(modules[i]->home, d));
            order[i] = {cost, modules[i]};
        }
        std::sort(order.begin(), order.end());
        std::vector<const Module *> nearest;
        for (auto &entry : order) nearest.push_back(entry.second);
        for (int net : group.nets) choose(nearest, net, &cells[(row * m.nets + net) * CHOICES]);
    }
}

static std::vector<uint16_t> plan(const Machine &m) {
    const int near_size = m.dimensions[m.near].size;
    std::vector<uint16_t> cells(m.sites.size() * m.nets * CHOICES, NONE);
    // The routers of each sub-group by position in the second dimension and net.
    std::vector<std::vector<std::vector<uint16_t>>> own(m.groups.size());
    for (size_t g = 0; g < m.groups.size(); ++g) {
        const Group &group = m.groups[g];
        if (group.metadata) continue;
        for (auto &sub_group : group.sub_groups) {
            for (int near = 0; near < near_size; ++near) {
                std::vector<const Module *> modules;
                for (auto &module : sub_group) modules.push_back(&module);
                std::stable_sort(modules.begin(), modules.end(), [&](const Module *a, const Module *b) {
                    return m.distance(m.near, near, m.position(a->home, m.near))
                        < m.distance(m.near, near, m.position(b->home, m.near));
                });
                std::vector<uint16_t> chosen(group.nets.size() * CHOICES, NONE);
                for (size_t n = 0; n < group.nets.size(); ++n)
                    choose(modules, group.nets[n], &chosen[n * CHOICES]);
                own[g].push_back(chosen);
            }
        }
    }
    std::vector<long> alike(size_t(m.dimensions[m.window].size) * near_size, -1);
    const size_t width = size_t(m.nets) * CHOICES;
    for (size_t row = 0; row < m.sites.size(); ++row) {
        int plane = m.position(m.sites[row].first, m.window), near = m.position(m.sites[row].first, m.near);
        long &other = alike[size_t(plane) * near_size + near];
        if (other >= 0) {
            std::copy_n(&cells[other * width], width, &cells[row * width]);
            continue;
        }
        for (size_t g = 0; g < m.groups.size(); ++g) {
            const Group &group = m.groups[g];
            if (group.metadata) continue;
            const auto &chosen = own[g][size_t(group.window[plane]) * near_size + near];
            for (size_t n = 0; n < group.nets.size(); ++n)
                std::copy_n(&chosen[n * CHOICES], CHOICES, &cells[row * width + group.nets[n] * CHOICES]);
        }
        other = long(row);
    }
    for (auto &group : m.groups) if (group.metadata) metadata(m, group, cells);
    return cells;
}

// One dimension: the streams along the current line.
struct Level {
    int dimension, size, reach;
    std::vector<int64_t> halves[2];             // of a stream between two positions that go up, and down
    std::vector<std::pair<int, int>> ends;      // a position, and what completed dimensions add to a vertex
    std::vector<int> end_of;                    // by place
    std::vector<int64_t> units, sums;           // by end and position; by place
    std::vector<int> used, used_ends;
};

struct Gather {
    const Machine &m;
    bool write;
    std::vector<Level> levels;
    std::vector<int> at, ahead;
    std::vector<int64_t> loads;

    void add(Level &level, int place, int position, int64_t units) {
        if (units == 0) return;
        level.units[size_t(level.end_of[place]) * level.size + position] += units;
        if (level.sums[place] == 0) level.used.push_back(place);
        level.sums[place] += units;
    }

    void end_line(size_t step) {
        Level &level = levels[step];
        const int stride = m.dimensions[level.dimension].stride, size = level.size;
        auto &ends = level.used_ends;
        ends.clear();
        for (int place : level.used) ends.push_back(level.end_of[place]);
        std::sort(ends.begin(), ends.end());
        ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
        for (int end : ends) {
            const int there = level.ends[end].first, start = level.ends[end].second + ahead[step];
            int64_t *units = &level.units[size_t(end) * size];
            for (int side = 0; side < 2; ++side) {
                int64_t *into = &loads[size_t(2 * level.dimension + side) * m.vertices + start];
                const int64_t *halves = &level.halves[side][size_t(there) * size];
                const bool below = (side == 0) == write;
                int far = below ? there + size - level.reach : there + level.reach;
                if (far >= size) far -= size;
                int64_t sum = 0;
                for (int hop = 0; hop < level.reach; ++hop) {
                    sum += units[far] * halves[far];
                    int next = below ? (far + 1 == size ? 0 : far + 1) : (far == 0 ? size - 1 : far - 1);
                    into[size_t(write ? far : next) * stride] += sum;
                    far = next;
                }
            }
            std::fill_n(units, size, 0);
        }
        for (int place : level.used) {
            int64_t sum = level.sums[place];
            level.sums[place] = 0;
            if (step + 1 < levels.size()) add(levels[step + 1], place, at[step + 1], sum);
        }
        level.used.clear();
    }

    void go_to(const int *position) {
        size_t last = 0;
        for (size_t step = levels.size(); step-- > 0;)
            if (at[step] != position[levels[step].dimension]) { last = step; break; }
        for (size_t step = 0; step < last; ++step) end_line(step);
        int sum = 0;
        for (size_t step = levels.size(); step-- > 0;) {
            at[step] = position[levels[step].dimension];
            ahead[step] = sum;
            sum += at[step] * m.dimensions[levels[step].dimension].stride;
        }
    }
};

static std::vector<int64_t> gather(const Machine &m, const Rows &rows, const std::vector<uint16_t> &cells,
                                   size_t choices, bool write) {
    std::vector<int> places;
    for (auto &group : m.groups)
        if (!group.metadata)
            for (auto &modules : group.sub_groups)
                for (auto &module : modules)
                    for (auto &router : module.routers) places.push_back(router.vertex);
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    std::vector<int> place_of;
    for (int vertex : m.router_vertex)
        place_of.push_back(std::lower_bound(places.begin(), places.end(), vertex) - places.begin());
    const size_t count = m.dimensions.size();
    Gather g{m, write, {}, std::vector<int>(count, 0), std::vector<int>(count, 0),
             std::vector<int64_t>(2 * count * m.vertices, 0)};
    std::vector<int> bases(places.size(), 0);
    for (size_t i = 0; i < count; ++i) {
        const int d = write ? int(i) : int(count - 1 - i);
        const Dimension &dimension = m.dimensions[d];
        Level level;
        level.dimension = d;
        level.size = dimension.size;
        level.reach = dimension.wrap ? dimension.size / 2 : dimension.size - 1;
        for (int there = 0; there < dimension.size; ++there) {
            for (int end = 0; end < dimension.size; ++end) {
                const int from = write ? end : there, to = write ? there : end;
                const int up = (to - from + dimension.size) % dimension.size;
                int64_t halves = 0;
                if (!dimension.wrap) halves = to > from ? 2 : 0;
                else if (up != 0) halves = 2 * up == dimension.size ? 1 : (2 * up < dimension.size ? 2 : 0);
                level.halves[0].push_back(halves);
                level.halves[1].push_back(2 - halves);
            }
        }
        std::map<std::pair<int, int>, int> known;
        for (size_t place = 0; place < places.size(); ++place) {
            const std::pair<int, int> end(m.position(places[place], d), bases[place]);
            auto found = known.emplace(end, int(known.size()));
            if (found.second) level.ends.push_back(end);
            level.end_of.push_back(found.first->second);
            bases[place] += end.first * dimension.stride;
        }
        level.units.assign(known.size() * level.size, 0);
        level.sums.assign(places.size(), 0);
        g.levels.push_back(std::move(level));
    }
    std::vector<std::vector<int>> positions(rows.size(), std::vector<int>(count));
    std::vector<std::pair<int, int>> order(rows.size());
    for (size_t row = 0; row < rows.size(); ++row) {
        int key = 0;
        for (size_t d = 0; d < count; ++d) positions[row][d] = m.position(rows[row].first, d);
        for (size_t step = count; step-- > 0;)
            key = key * g.levels[step].size + positions[row][g.levels[step].dimension];
        order[row] = {key, int(row)};
    }
    std::sort(order.begin(), order.end());
    for (auto &entry : order) {
        const int row = entry.second;
        g.go_to(positions[row].data());
        const int position = g.at[0];
        const int64_t clients = rows[row].second;
        int pending = -1;
        int64_t sum = 0;
        for (int net : m.data_nets) {
            const uint16_t router = cells[(size_t(row) * m.nets + net) * choices];
            if (router == NONE) continue;
            const int place = place_of[router];
            if (place == pending) { sum += clients; continue; }
            if (pending >= 0) g.add(g.levels[0], pending, position, sum);
            pending = place;
            sum = clients;
        }
        if (pending >= 0) g.add(g.levels[0], pending, position, sum);
    }
    for (size_t step = 0; step < g.levels.size(); ++step) g.end_line(step);
    return g.loads;
}

// The optimum with equal loads, from the sinks' rents: see transport/rents.rs, whose names these are.

static const int SINKS_MAX = 12;
static const int BLOCK = 64;
static const size_t SAMPLE = 1024;

struct Transport {
    std::vector<uint32_t> supplies, costs, base;
    uint32_t extra;
};

struct Piece { uint32_t site; int sink; uint32_t units; };

struct Extra {
    size_t above = 0, at = 0;
    int places = 0;
    Extra(const std::vector<int> &rents, uint32_t extra) {
        extra = std::min<uint32_t>(extra, rents.size());
        if (extra == 0) return;
        std::vector<int> sorted = rents;
        std::sort(sorted.rbegin(), sorted.rend());
        const int least = sorted[extra - 1];
        for (size_t sink = 0; sink < rents.size(); ++sink) {
            above |= size_t(rents[sink] > least) << sink;
            at |= size_t(rents[sink] == least) << sink;
        }
        places = int(extra) - __builtin_popcountl(above);
    }
    int more(size_t set) const {
        return places == 0 ? 0 : std::min(__builtin_popcountl(set & at), places);
    }
    int less(size_t set) const {
        return places == 0 ? 0 : std::max(places - __builtin_popcountl(at & ~set), 0);
    }
};

struct Search {
    int sinks;
    std::vector<uint32_t> supplies;
    std::vector<int16_t> costs;
    std::vector<int> base;
    uint32_t extra;
    std::vector<uint16_t> ties;
    std::vector<int> counts, sums;

    Search(const Transport &p, size_t step, std::vector<int> room, uint32_t extra)
        : sinks(int(room.size())), base(std::move(room)), extra(extra) {
        for (size_t site = 0; site < p.supplies.size(); site += step) supplies.push_back(p.supplies[site]);
        const size_t blocks = (supplies.size() + BLOCK - 1) / BLOCK;
        costs.assign(blocks * sinks * BLOCK, 0);
        for (int sink = 0; sink < sinks; ++sink) {
            const uint32_t *column = &p.costs[size_t(sink) * p.supplies.size()];
            for (size_t site = 0; site < supplies.size(); ++site)
                costs[(site / BLOCK * sinks + sink) * BLOCK + site % BLOCK] = int16_t(column[site * step]);
        }
        ties.assign(blocks * BLOCK, 0);
        counts.assign(size_t(1) << sinks, 0);
        sums.assign(size_t(1) << sinks, 0);
    }

    void tie(const std::vector<int> &rents, int16_t slack) {
        int16_t narrow[SINKS_MAX] = {0};
        for (int sink = 0; sink < sinks; ++sink) narrow[sink] = int16_t(rents[sink]);
        for (size_t block = 0; block < ties.size() / BLOCK; ++block) {
            const int16_t *columns = &costs[block * sinks * BLOCK];
            uint16_t *sets = &ties[block * BLOCK];
            int16_t least[BLOCK];
            std::fill_n(least, BLOCK, int16_t(0x7fff));
            for (int sink = 0; sink < sinks; ++sink)
                for (int i = 0; i < BLOCK; ++i)
                    least[i] = std::min<int16_t>(least[i], int16_t(columns[sink * BLOCK + i] + narrow[sink]));
            std::fill_n(sets, BLOCK, uint16_t(0));
            for (int sink = 0; sink < sinks; ++sink)
                for (int i = 0; i < BLOCK; ++i)
                    sets[i] |= uint16_t(int16_t(columns[sink * BLOCK + i] + narrow[sink] - slack) <= least[i]) << sink;
        }
        std::fill(counts.begin(), counts.end(), 0);
        for (size_t site = 0; site < supplies.size(); ++site) counts[ties[site]] += int(supplies[site]);
    }

    // Moves the rents of the set of sinks that improves most. Returns whether one does.
    bool move(std::vector<int> &rents, int stride) {
        const Extra rest(rents, extra);
        sums = counts;
        for (int sink = 0; sink < sinks; ++sink) sums[size_t(1) << sink] -= base[sink] + int(rest.above >> sink & 1);
        for (size_t half = 1; half < sums.size(); half *= 2)
            for (size_t first = 0; first < sums.size(); first += 2 * half)
                for (size_t i = 0; i < half; ++i) sums[first + half + i] += sums[first + i];
        const size_t all = sums.size() - 1;
        size_t may_fall = 0, found = 0;
        for (int sink = 0; sink < sinks; ++sink) may_fall |= size_t(rents[sink] >= stride) << sink;
        int most = 0, by = 0;
        for (size_t set = 0; set <= all; ++set) {
            if (sums[set] > most) {
                const int rising = sums[set] - rest.more(set);
                if (rising > most) { most = rising; found = set; by = stride; }
            }
            const int gain = sums[all & ~set] - sums[all];
            if (gain + rest.places > most && (set & ~may_fall) == 0) {
                const int falling = gain + rest.less(set);
                if (falling > most) { most = falling; found = set; by = -stride; }
            }
        }
        for (int sink = 0; sink < sinks; ++sink) if (found >> sink & 1) rents[sink] += by;
        return by != 0;
    }

    void ascend(std::vector<int> &rents, int stride) {
        do tie(rents, int16_t(stride - 1)); while (move(rents, stride));
    }
};

// A flow from sets of tied sinks to these sinks, and from the sinks to a hub for the extra units.
struct TiedFlow {
    std::vector<size_t> sets;
    std::vector<std::vector<uint32_t>> flow;
    int hub;
    size_t sends, may_send, must_send;
    int64_t load[SINKS_MAX + 1] = {0}, least[SINKS_MAX + 1] = {0}, most[SINKS_MAX + 1] = {0};

    TiedFlow(const Transport &p, const std::vector<int> &counts, const std::vector<int> &rents)
        : hub(int(p.base.size())) {
        for (size_t set = 0; set < counts.size(); ++set) if (counts[set] > 0) sets.push_back(set);
        const Extra extra(rents, p.extra);
        flow.assign(sets.size(), std::vector<uint32_t>(SINKS_MAX, 0));
        sends = must_send = extra.above;
        may_send = extra.above | extra.at;
        bool is_worth = false;
        for (int sink = 0; sink < hub; ++sink) is_worth |= (extra.at >> sink & 1) && rents[sink] > 0;
        most[hub] = std::min<int64_t>(p.extra, hub);
        least[hub] = is_worth ? most[hub] : 0;
        load[hub] = __builtin_popcountl(extra.above);
        for (int sink = 0; sink < hub; ++sink) {
            most[sink] = p.base[sink];
            least[sink] = rents[sink] > 0 ? p.base[sink] : 0;
            load[sink] = -int64_t(extra.above >> sink & 1);
        }
        std::vector<size_t> order(sets.size());
        for (size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
            return __builtin_popcountl(sets[a]) < __builtin_popcountl(sets[b]);
        });
        for (size_t index : order) {
            int64_t left = counts[sets[index]];
            for (int sink = 0; sink < hub; ++sink) {
                if (!(sets[index] >> sink & 1)) continue;
                const int64_t taken = std::max<int64_t>(std::min(left, most[sink] - load[sink]), 0);
                put(index, sink, taken);
                left -= taken;
            }
            put(index, __builtin_ctzl(sets[index]), left);
        }
        if (!level(most, false) || !level(least, true)) std::exit(3);
    }

    void put(size_t index, int sink, int64_t units) {
        flow[index][sink] += uint32_t(units);
        load[sink] += units;
    }

    size_t reach(int at) const {
        if (at == hub) return sends & ~must_send;
        size_t all = (may_send & ~sends) >> at & 1 ? size_t(1) << hub : 0;
        for (size_t i = 0; i < sets.size(); ++i) if (flow[i][at] > 0) all |= sets[i];
        return all;
    }

    std::pair<size_t, int64_t> step(int from, int to) const {
        if (from == hub || to == hub) return {0, 1};
        const size_t both = size_t(1) << from | size_t(1) << to;
        std::pair<size_t, int64_t> best(0, 0);
        for (size_t i = 0; i < sets.size(); ++i)
            if ((sets[i] & both) == both && int64_t(flow[i][from]) >= best.second) best = {i, flow[i][from]};
        return best;
    }

    bool level(const int64_t *limits, bool fills) {
        for (;;) {
            size_t above = 0, below = 0;
            for (int node = 0; node <= hub; ++node) {
                above |= size_t(load[node] > limits[node]) << node;
                below |= size_t(load[node] < limits[node]) << node;
            }
            if ((fills ? below : above) == 0) return true;
            int previous[SINKS_MAX + 1];
            std::fill_n(previous, SINKS_MAX + 1, -1);
            std::vector<int> queue, chain;
            for (int node = 0; node <= hub; ++node) if (above >> node & 1) queue.push_back(node);
            size_t seen = above;
            for (size_t next = 0; next < queue.size() && chain.empty(); ++next) {
                const int at = queue[next];
                if (below >> at & 1) {
                    for (int node = at; node >= 0; node = previous[node]) chain.push_back(node);
                    break;
                }
                const size_t reached = reach(at) & ~seen;
                seen |= reached;
                for (int node = 0; node <= hub; ++node)
                    if (reached >> node & 1) { previous[node] = at; queue.push_back(node); }
            }
            if (chain.empty()) return false;
            const int last = chain.front(), first = chain.back();
            int64_t units = std::min(load[first] - limits[first], limits[last] - load[last]);
            for (size_t i = 0; i + 1 < chain.size(); ++i) units = std::min(units, step(chain[i + 1], chain[i]).second);
            for (size_t i = 0; i + 1 < chain.size(); ++i) {
                const int to = chain[i], from = chain[i + 1];
                const size_t index = step(from, to).first;
                load[from] -= units;
                load[to] += units;
                if (from == hub) sends &= ~(size_t(1) << to);
                else if (to == hub) sends |= size_t(1) << from;
                else {
                    flow[index][from] -= uint32_t(units);
                    flow[index][to] += uint32_t(units);
                }
            }
        }
    }

    std::vector<Piece> hand_out(const Transport &p, const std::vector<uint16_t> &ties) {
        std::vector<size_t> index_of(size_t(1) << hub, 0);
        for (size_t i = 0; i < sets.size(); ++i) index_of[sets[i]] = i;
        std::vector<Piece> pieces;
        pieces.reserve(p.supplies.size());
        for (size_t site = 0; site < p.supplies.size(); ++site) {
            uint32_t left = p.supplies[site];
            for (int sink = 0; sink < hub && left > 0; ++sink) {
                if (!(ties[site] >> sink & 1)) continue;
                uint32_t &there = flow[index_of[ties[site]]][sink];
                const uint32_t units = std::min(left, there);
                if (units == 0) continue;
                there -= units;
                left -= units;
                pieces.push_back({uint32_t(site), sink, units});
            }
        }
        return pieces;
    }
};

static std::vector<Piece> solve(const Transport &p, std::vector<int> &rents) {
    const size_t sinks = p.base.size();
    std::vector<int> base(p.base.begin(), p.base.end());
    if (rents.size() != sinks) {
        rents.assign(sinks, 0);
        size_t step = std::max<size_t>(p.supplies.size() / SAMPLE, 1);
        while (step % 2 == 0 || step % 3 == 0 || step % 5 == 0 || step % 7 == 0) ++step;
        uint64_t supply = 0, part = 0;
        for (uint32_t units : p.supplies) supply += units;
        for (size_t site = 0; site < p.supplies.size(); site += step) part += p.supplies[site];
        const uint64_t spread = (p.extra + sinks - 1) / sinks;
        std::vector<int> scaled;
        for (uint32_t room : p.base) scaled.push_back(int(((room + spread) * part + supply - 1) / supply));
        Search sample(p, step, scaled, 0);
        for (int stride : {8, 4, 2, 1}) sample.ascend(rents, stride);
    }
    Search search(p, 1, base, p.extra);
    search.ascend(rents, 1);
    return TiedFlow(p, search.counts, rents).hand_out(p, search.ties);
}

// Costs from each site, router by router: built dimension by dimension for all vertices.
static std::vector<uint32_t> columns(const Machine &m, const std::vector<int> &places) {
    std::vector<uint32_t> found;
    found.reserve(places.size() * m.sites.size());
    std::vector<uint32_t> all(m.vertices);
    for (int place : places) {
        size_t length = 1;
        all[0] = 0;
        for (size_t d = m.dimensions.size(); d-- > 0;) {
            const int there = m.position(place, d);
            for (int position = m.dimensions[d].size; position-- > 0;) {
                const uint32_t more = uint32_t(m.dimensions[d].cost * m.distance(d, position, there));
                for (size_t i = 0; i < length; ++i) all[position * length + i] = all[i] + more;
            }
            length *= m.dimensions[d].size;
        }
        for (auto &site : m.sites) found.push_back(all[site.first]);
    }
    return found;
}

// The primaries of the balanced optimum, by row and net; rows are clients of a site with the same slots.
static std::vector<uint16_t> balanced(const Machine &m, Rows &rows) {
    std::vector<uint32_t> ends(m.sites.size()), clients(m.site_of.size());
    uint32_t sum = 0;
    for (size_t site = 0; site < m.sites.size(); ++site) { ends[site] = sum; sum += m.sites[site].second; }
    for (size_t client = 0; client < m.site_of.size(); ++client) clients[ends[m.site_of[client]]++] = client;
    std::vector<std::vector<uint16_t>> slots;
    std::vector<int> rents;
    int group = -1;
    for (auto &share : m.shares) {
        if (share.group != group) rents.clear();
        group = share.group;
        const uint32_t count = uint32_t(share.places.size()), all = uint32_t(m.site_of.size());
        Transport p{{}, columns(m, share.places), std::vector<uint32_t>(count, all / count), all % count};
        for (auto &site : m.sites) p.supplies.push_back(site.second);
        slots.emplace_back(m.site_of.size());
        size_t next = 0;
        for (auto &piece : solve(p, rents))
            for (uint32_t unit = 0; unit < piece.units; ++unit) slots.back()[clients[next++]] = uint16_t(piece.sink);
    }
    std::vector<uint32_t> last(m.sites.size(), UINT32_MAX), previous, first;
    rows.clear();
    for (size_t client = 0; client < m.site_of.size(); ++client) {
        uint32_t &of_site = last[m.site_of[client]];
        uint32_t row = of_site;
        for (; row != UINT32_MAX; row = previous[row]) {
            bool is_same = true;
            for (auto &own : slots) is_same &= own[first[row]] == own[client];
            if (is_same) break;
        }
        if (row == UINT32_MAX) {
            row = uint32_t(rows.size());
            rows.push_back({m.sites[m.site_of[client]].first, 0});
            first.push_back(uint32_t(client));
            previous.push_back(of_site);
            of_site = row;
        }
        ++rows[row].second;
    }
    std::vector<uint16_t> cells(rows.size() * m.nets, NONE);
    for (size_t row = 0; row < rows.size(); ++row)
        for (size_t i = 0; i < m.shares.size(); ++i)
            for (size_t n = 0; n < m.shares[i].nets.size(); ++n)
                cells[row * m.nets + m.shares[i].nets[n]] = m.shares[i].routers[n][slots[i][first[row]]];
    return cells;
}

// Sums the load of each link, times its number and one, as the caller does.
static long long checksum(const Machine &m, const std::vector<int64_t> &loads) {
    unsigned long long sum = 0;
    const size_t ports = loads.size() / m.vertices;
    for (size_t vertex = 0; vertex < size_t(m.vertices); ++vertex)
        for (size_t port = 0; port < ports; ++port)
            sum += (unsigned long long)(loads[port * m.vertices + vertex]) * (vertex * ports + port + 1);
    return (long long)(sum % 1000000007ULL);
}

template <class Run> static void measure(const Machine &m, long rounds, Run run) {
    long long least = -1, sums[2] = {0, 0};
    for (long round = 0; round < rounds; ++round) {
        const auto start = std::chrono::steady_clock::now();
        const std::pair<std::vector<int64_t>, std::vector<int64_t>> loads = run();
        const auto time = std::chrono::steady_clock::now() - start;
        const long long taken = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
        if (least < 0 || taken < least) least = taken;
        sums[0] = checksum(m, loads.first);
        sums[1] = checksum(m, loads.second);
    }
    std::printf("%lld %lld %lld\n", least, sums[0], sums[1]);
}

int main() {
    const Machine m = read();
    const long rounds = number();
    measure(m, rounds, [&] {
        const auto cells = plan(m);
        return std::make_pair(gather(m, m.sites, cells, CHOICES, true), gather(m, m.sites, cells, CHOICES, false));
    });
    measure(m, rounds, [&] {
        Rows rows;
        const auto cells = balanced(m, rows);
        return std::make_pair(gather(m, rows, cells, 1, true), gather(m, rows, cells, 1, false));
    });
}
