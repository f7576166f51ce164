//! The idle word, role by role: what the models do not ask, because nothing depends on it.
#![cfg(not(loom))]

use scheduler::internals::idle::{Fences, IdleWord, Role};

const SEARCHER: Role = Role { searching: true, fast: false };

/// A searcher of the own shard: the question ends with its search.
#[test]
fn a_hungry_searcher_asks_for_as_long_as_it_searches() {
    let word = IdleWord::new(false, Fences::None);
    word.raise_hungry();
    assert!(!word.load().hungry(), "nobody searches");
    assert!(word.begin_search(1));
    word.raise_hungry();
    assert!(word.load().hungry() && word.load().attention());
    word.end_search();
    assert!(!word.load().hungry() && !word.load().attention());
}

/// A searcher of another shard is not counted here, so its question stays, whatever others do, until somebody answers,
/// has nothing, or goes to sleep; and then the word is calm again.
#[test]
fn a_question_from_another_shard_stays_until_it_is_answered() {
    let sleeps = |word: &IdleWord| {
        let _standby = word.announce(0, SEARCHER, false);
    };
    let answers: [fn(&IdleWord); 3] = [IdleWord::clear_hungry, IdleWord::clear_asked, sleeps];
    for answer in answers {
        let word = IdleWord::new(false, Fences::None);
        assert!(word.begin_search(4) && word.begin_search(4));
        word.count_fast();
        assert!(!word.load().hungry());
        word.ask();
        assert!(word.load().hungry() && word.load().attention());
        word.end_search();
        assert!(word.load().hungry(), "ends with somebody else's search");
        answer(&word);
        assert!(!word.load().hungry(), "is never over");
    }
}

/// What is cleared for want of tasks is the question from elsewhere only.
#[test]
fn who_has_nothing_does_not_silence_its_own_shard() {
    let word = IdleWord::new(false, Fences::None);
    assert!(word.begin_search(1));
    word.raise_hungry();
    word.clear_asked();
    assert!(word.load().hungry());
}
