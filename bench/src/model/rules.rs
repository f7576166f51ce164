//! The policy, and its controls: what a count says is worth nothing unless a bad policy fails it.

/// Who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// The library's policy.
    Ours,
    /// Everybody is asked in a new random order at every search, and anybody is woken.
    Uniform,
    /// Nobody looks at or wakes another node.
    Strict,
    /// The library's policy, but a steal takes one task.
    OneTask,
    /// The library's policy, but every submission wakes two workers, whoever searches.
    Herd,
}

impl Rules {
    /// All of them, ours first.
    pub const ALL: [Rules; 5] = [Rules::Ours, Rules::Uniform, Rules::Strict, Rules::OneTask, Rules::Herd];

    /// Its name in tables and reports.
    pub fn name(self) -> &'static str {
        match self {
            Rules::Ours => "ours",
            Rules::Uniform => "uniform",
            Rules::Strict => "strict node",
            Rules::OneTask => "one task",
            Rules::Herd => "herd",
        }
    }
}
