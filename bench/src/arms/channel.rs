//! Twenty lines that are hard to beat: boxed closures through one `crossbeam-channel`.
use super::Arm;

type Boxed = Box<dyn FnOnce() + Send>;

pub(crate) struct Channel(crossbeam_channel::Sender<Boxed>);

impl Channel {
    pub(crate) fn new(workers: usize) -> Result<Channel, String> {
        let (sender, receiver) = crossbeam_channel::unbounded::<Boxed>();
        for n in 0..workers {
            let receiver = receiver.clone();
            let thread = std::thread::Builder::new().name(format!("channel-{n}"));
            thread.spawn(move || receiver.iter().for_each(|task| task())).map_err(|e| e.to_string())?;
        }
        Ok(Channel(sender))
    }
}

impl Arm for Channel {
    #[inline(always)]
    fn submit<F: FnOnce() + Send + 'static>(&'static self, task: F) {
        self.0.send(Box::new(task)).expect("the workers keep the receiving end open");
    }
}
