//! Counting jumps within functions, for `--collect-jumps`.
//!
//! How often a branch inside a superblock goes each way follows from the counters of the paths that end
//! behind it. A counter of its own is needed only where a fragment ends in a conditional branch or in an
//! indirect jump.

use crate::block::Decoded;
use crate::calls;
use crate::engine::Engine;
use crate::layout::counter_disp;
use crate::tool::Tool;
use tallygraph_callgraph::{BlockId, Graph, Place, Transfer};
use tallygraph_x64::Kind;
use tallygraph_x64::asm::Asm;

/// A path through a superblock: its block, its counter, and how many instructions it has.
#[derive(Clone, Copy)]
pub(crate) struct Path {
    pub block: BlockId,
    pub counter: u32,
    pub insns: usize,
}

impl<T: Tool> Engine<T> {
    /// A counter for a branch that ends a fragment and stays in its function; 0 when it is not counted.
    pub(crate) fn jump_counter(
        &mut self,
        block: BlockId,
        place: &Place,
        conditional: bool,
        from: u64,
        to: u64,
    ) -> u32 {
        if !self.tool.counts_jumps() || self.off {
            return 0;
        }
        match self.place_of(to) {
            Some(target) if Graph::jump(place, &target) == Transfer::Stay => {
                self.tool.jump(block, conditional, from, to, 0)
            }
            _ => 0,
        }
    }

    /// Says how often the branches on the paths through a superblock were taken: `whole` goes to its end, the
    /// others leave it by the branch that they end in.
    pub(crate) fn note_jumps(&mut self, insns: &[Decoded], place: &Place, whole: Path, sides: &[Path]) {
        for (i, d) in insns.iter().enumerate().filter(|(_, d)| matches!(d.insn.kind, Kind::Jcc | Kind::Jmp)) {
            let conditional = d.insn.kind == Kind::Jcc;
            let to = d.insn.target(d.pc);
            let last = i + 1 == insns.len();
            if last && (conditional || self.jump_stays(place, to).is_none()) {
                // A conditional branch at the end has a counter of its own.
                continue;
            }
            let follows = !conditional || d.taken;
            for path in sides.iter().chain([&whole]) {
                let taken = if follows && !last { path.insns > i + 1 } else { path.insns == i + 1 };
                if taken {
                    self.tool.jump(path.block, conditional, d.pc, to, path.counter);
                }
            }
        }
    }

    fn jump_stays(&mut self, place: &Place, to: u64) -> Option<()> {
        let target = self.place_of(to)?;
        (Graph::jump(place, &target) == Transfer::Stay).then_some(())
    }

    /// Emits the counting of a taken branch; `flags_dead` says that flags may be changed.
    pub(crate) fn emit_jump_count(asm: &mut Asm, counter: u32, flags_dead: bool) {
        match (counter, flags_dead) {
            (0, _) => {}
            (_, true) => asm.inc_gs(counter_disp(counter)),
            (_, false) => calls::increment_neutral(asm, counter_disp(counter)),
        }
    }
}
